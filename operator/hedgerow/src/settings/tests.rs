use super::*;

const SMALLEST: &str = "sources: [{ name: default, url: 'http://prometheus:9090', namespaces: ['*'] }]";

fn parse(text: &str) -> Result<Settings, SettingsError> {
    Settings::parse("operator.yaml", text)
}

/// The message of a source with `extra` keys beside name, url and namespaces.
fn refused(extra: &str) -> String {
    let text = format!("sources: [{{ name: default, url: 'http://p', namespaces: ['*'], {extra} }}]");
    parse(&text).unwrap_err().to_string()
}

#[test]
fn the_smallest_file_has_a_default_for_everything_else() {
    let settings = parse(SMALLEST).unwrap();
    assert_eq!(settings.propagation, Duration::from_secs(90));
    assert_eq!(settings.lease.as_deref(), Some("hedgerow"));
    assert!(settings.listen_loopback.ip().is_loopback());
    assert!(!settings.nudge, "pods are another's: nobody touches them unasked");
    let source = settings.sources.available("default", "helpdesk").unwrap();
    assert_eq!(source.ceilings, Ceilings::default());
}

#[test]
fn who_may_name_a_source_is_said_never_assumed() {
    let error = parse("sources: [{ name: default, url: 'http://p' }]")
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("sources[0].namespaces: is missing"), "{error}");
    assert!(error.contains("[\"*\"]"), "{error}");
    let both = parse("sources: [{ name: a, url: 'http://p', namespaces: ['*', b] }]").unwrap_err();
    assert!(both.to_string().starts_with("sources[0].namespaces"), "{both}");
}

#[test]
fn a_source_that_is_not_allowed_reads_like_one_that_does_not_exist() {
    let settings = parse("sources: [{ name: default, url: 'http://p', namespaces: [shop] }]").unwrap();
    let message = |name| {
        settings
            .sources
            .available(name, "helpdesk")
            .unwrap_err()
            .to_string()
    };
    assert_eq!(message("default"), message("other").replace("other", "default"));
    assert!(settings.sources.available("default", "shop").is_ok());
}

#[test]
fn an_unknown_key_is_refused_with_the_keys_there_are() {
    let error = parse("propagationTime: 3s").unwrap_err().to_string();
    assert!(
        error.contains("propagationTime") && error.contains("watchNamespaces"),
        "{error}"
    );
}

#[test]
fn a_value_out_of_range_names_the_key_and_the_range() {
    let error = refused("timeout: 5m");
    assert_eq!(error, "sources[0].timeout: 5m is out of range; use 100ms to 1m");
    let error = refused("ceilings: { maxBudgetPercent: '0' }");
    assert!(
        error.starts_with("sources[0].ceilings.maxBudgetPercent"),
        "{error}"
    );
    let error = refused("offset: soon");
    assert!(
        error.starts_with("sources[0].offset: \"soon\" is not a duration"),
        "{error}"
    );
}

#[test]
fn an_address_that_is_none_is_told_with_an_example() {
    let error = parse(&format!("listen: {{ address: localhost }}\n{SMALLEST}"))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("localhost") && error.contains("0.0.0.0:8080"),
        "{error}"
    );
}

#[test]
fn the_status_page_is_off_unless_asked_for_and_served_on_loopback_alone() {
    assert_eq!(parse(SMALLEST).unwrap().listen_status_page, None);
    let listening = |address: &str| parse(&format!("listen: {{ statusPage: '{address}' }}\n{SMALLEST}"));
    let settings = listening("[::1]:8082").unwrap();
    assert_eq!(settings.listen_status_page, Some("[::1]:8082".parse().unwrap()));
    let error = listening("0.0.0.0:8082").unwrap_err().to_string();
    assert!(
        error.starts_with("listen.statusPage: 0.0.0.0:8082 is not a loopback address")
            && error.contains("127.0.0.1:8082"),
        "{error}"
    );
}

#[test]
fn explanations_are_served_on_loopback_alone() {
    let error = parse(&format!("listen: {{ explain: '0.0.0.0:8081' }}\n{SMALLEST}"))
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("listen.explain") && error.contains("127.0.0.1:8081"),
        "{error}"
    );
}

#[test]
fn two_sources_of_one_name_are_refused() {
    let source = "{ name: a, url: 'http://p', namespaces: ['*'] }";
    let error = parse(&format!("sources: [{source}, {source}]"))
        .unwrap_err()
        .to_string();
    assert!(error.starts_with("sources[1].name"), "{error}");
}

#[test]
fn one_way_to_authenticate() {
    let error =
        refused("authentication: { bearer: { tokenFile: t }, basic: { username: u, passwordFile: p } }");
    assert!(error.starts_with("sources[0].authentication"), "{error}");
}

#[test]
fn a_label_that_would_break_out_of_the_query_is_refused() {
    let error = refused("enforceNamespaceLabel: 'a\"}'");
    assert!(error.starts_with("sources[0].enforceNamespaceLabel"), "{error}");
}
