//! Envoy's routes.

use hedgerow_config::{EnvoyCluster, Form, Part, RenderError};
use hedgerow_tuner::Orders;
use serde_json::{Value, json};

use crate::{golden, off, on, part, refused_base, refused_orders, with_attempts, yaml};

const BASE: &str = include_str!("../golden/envoy-route/base.yaml");

fn cluster(name: &str) -> EnvoyCluster {
    EnvoyCluster {
        cluster: name.to_owned(),
    }
}

fn form(parts: Vec<Part<EnvoyCluster>>) -> Form {
    Form::EnvoyRoute(parts)
}

fn search(orders: Orders) -> Form {
    form(vec![part("search", orders, cluster("search"))])
}

/// A base of one virtual host, with these fields beside its domains.
fn host(fields: &str) -> String {
    format!("resources: [{{ name: r, virtual_hosts: [{{ name: v, domains: ['*'], {fields} }}] }}]")
}

/// A base of one route to the cluster `search`, with these fields.
fn route(fields: &str) -> String {
    host(&format!(
        "routes: [{{ match: {{ prefix: / }}, route: {{ cluster: search, {fields} }} }}]"
    ))
}

/// The action of a route in a document, `retry_policy` and all.
fn action(document: &Value, at: usize) -> &Value {
    &document["resources"][0]["virtual_hosts"][0]["routes"][at]["route"]
}

fn previous_hosts() -> Value {
    json!([{
        "name": "envoy.retry_host_predicates.previous_hosts",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate"
        },
    }])
}

#[test]
fn the_documents_read_as_the_golden_files() {
    for (name, orders, delay) in [
        ("on", on(512.0, 10.0), "0.512s"),
        ("ramping", on(512.0, 2.5), "0.512s"),
        ("changed", on(600.25, 10.0), "0.601s"),
    ] {
        let document = yaml(&golden(
            &format!("envoy-route/{name}.yaml"),
            &search(orders),
            Some(BASE),
        ));
        let mut wanted = yaml(BASE);
        let routes = &mut wanted["resources"][0]["virtual_hosts"][0]["routes"];
        // Its own policy is none, so it takes that of the virtual host.
        routes[2]["route"]["retry_policy"] = json!({
            "retry_on": "reset",
            "num_retries": 1,
            "per_try_timeout": delay,
            "retry_host_predicate": previous_hosts(),
            "host_selection_retry_max_attempts": 3,
        });
        routes[3]["route"]["retry_policy"] = json!({
            "retry_on": "5xx,reset,connect-failure",
            "num_retries": 1,
            "per_try_timeout": delay,
            "retry_host_predicate": previous_hosts(),
            "host_selection_retry_max_attempts": 3,
        });
        for route in [2, 3] {
            routes[route]["route"]["hedge_policy"] = json!({ "hedge_on_per_try_timeout": true });
        }
        assert_eq!(document, wanted);
    }
}

#[test]
fn off_is_the_base_with_the_timeout_per_try_of_its_owner() {
    assert_eq!(search(off()).render(Some(BASE)).unwrap(), BASE);
}

#[test]
fn a_target_that_is_off_keeps_its_routes_while_another_hedges() {
    let one = form(vec![
        part("search", off(), cluster("search")),
        part("suggest", on(50.0, 10.0), cluster("suggest")),
    ]);
    let document = yaml(&one.render(Some(BASE)).unwrap());
    for at in 0..4 {
        assert_eq!(action(&document, at), action(&yaml(BASE), at));
    }
    assert_eq!(action(&document, 4)["retry_policy"]["per_try_timeout"], "0.050s");
}

#[test]
fn without_a_retry_policy_only_what_nobody_worked_on_is_retried() {
    for fields in [
        "timeout: 1s",
        "retry_policy: {}",
        "retry_policy: { retry_on: '' }",
    ] {
        let document = yaml(&search(on(512.0, 10.0)).render(Some(&route(fields))).unwrap());
        assert_eq!(
            action(&document, 0)["retry_policy"]["retry_on"],
            "connect-failure,refused-stream"
        );
    }
}

#[test]
fn attempts_are_one_more_than_retries() {
    for attempts in 2..=5 {
        let part = with_attempts(attempts, part("search", on(100.0, 10.0), cluster("search")));
        let document = yaml(&form(vec![part]).render(Some(&route("timeout: 1s"))).unwrap());
        assert_eq!(action(&document, 0)["retry_policy"]["num_retries"], attempts - 1);
    }
}

#[test]
fn fields_are_found_in_both_spellings_and_written_in_that_of_the_base() {
    let base = r#"{"resources":[{"virtualHosts":[{"routes":[{"route":{"cluster":"search","retryPolicy":
        {"retryOn":"5xx","perTryTimeout":"0.9s","retryHostPredicate":[{"name":"envoy.retry_host_predicates.previous_hosts"}],
        "hostSelectionRetryMaxAttempts":"5"}}}]}]}]}"#;
    let document = yaml(&search(on(512.0, 10.0)).render(Some(base)).unwrap());
    assert_eq!(
        document["resources"][0]["virtualHosts"][0]["routes"][0]["route"],
        json!({
            "cluster": "search",
            "retryPolicy": {
                "retryOn": "5xx",
                "perTryTimeout": "0.512s",
                "retryHostPredicate": [{ "name": "envoy.retry_host_predicates.previous_hosts" }],
                "hostSelectionRetryMaxAttempts": "5",
                "num_retries": 1,
            },
            "hedge_policy": { "hedge_on_per_try_timeout": true },
        })
    );
    let (at, problem) = refused_base(&search(off()), &route("retry_policy: {}, retryPolicy: {}"));
    assert_eq!(at, "resources[0].virtual_hosts[0].routes[0].route");
    assert!(problem.contains("both retry_policy and retryPolicy"), "{problem}");
}

/// `on` without quotes is a boolean to Envoy, and so must texts that look like one stay quoted.
#[test]
fn scalars_keep_the_meaning_that_they_have_for_envoy() {
    let base = route(
        "a: on, b: 'on', c: 010, d: '010', e: 1_000, f: ~, g: '', h: '1.30', i: \"x: y # z\", j: 5s, k: '0x1F'",
    );
    let document = search(on(512.0, 10.0)).render(Some(&base)).unwrap();
    for line in ["a: true", "c: 8", "f: null", "j: 5s"] {
        assert!(
            document.lines().any(|found| found.trim() == line),
            "{line} is not in\n{document}"
        );
    }
    let texts =
        json!({ "b": "on", "d": "010", "e": "1_000", "g": "", "h": "1.30", "i": "x: y # z", "k": "0x1F" });
    for (key, text) in texts.as_object().unwrap() {
        let text = text.as_str().unwrap();
        let quoted = [format!("{key}: '{text}'"), format!("{key}: \"{text}\"")];
        assert!(
            document
                .lines()
                .any(|found| quoted.contains(&found.trim().to_owned())),
            "{key} in\n{document}"
        );
    }
}

#[test]
fn a_base_that_hedges_or_cannot_is_refused_at_its_place() {
    let action = "resources[0].virtual_hosts[0].routes[0].route";
    for (base, at, problem) in [
        (
            route("hedge_policy: { hedge_on_per_try_timeout: true }"),
            format!("{action}.hedge_policy"),
            "take it away",
        ),
        (
            host("hedge_policy: {}, routes: [{ route: { cluster: search } }]"),
            "resources[0].virtual_hosts[0].hedge_policy".to_owned(),
            "take it away",
        ),
        (
            route("retry_policy: { num_retries: 0 }"),
            format!("{action}.retry_policy.num_retries"),
            "forbids retries",
        ),
        (
            route("retry_policy: 5"),
            format!("{action}.retry_policy"),
            "is no map",
        ),
        (
            route("retry_policy: { retry_on: 5 }"),
            format!("{action}.retry_policy.retry_on"),
            "is no text",
        ),
        (
            route("retry_policy_typed_config: { name: x }"),
            format!("{action}.retry_policy_typed_config"),
            "cannot read",
        ),
        (
            route("timeout: soon"),
            format!("{action}.timeout"),
            "is no duration",
        ),
        (route("x: 1.5"), format!("{action}.x"), "quotes"),
        (
            host(
                "routes: [{ route: { weighted_clusters: { clusters: [{ name: search, weight: 1 }, { name: b, weight: 9 }] } } }]",
            ),
            "resources[0].virtual_hosts[0].routes[0]".to_owned(),
            "give search a route of its own",
        ),
        (
            host("routes: []"),
            "resources".to_owned(),
            "has no route to the cluster search",
        ),
        ("a: 1".to_owned(), "base".to_owned(), "has no resources"),
        ("resources: 1".to_owned(), "resources".to_owned(), "is no list"),
    ] {
        for orders in [on(512.0, 10.0), off()] {
            let (found, why) = refused_base(&search(orders), &base);
            assert_eq!(found, at, "{base}");
            assert!(why.contains(problem), "{why}");
        }
    }
    let missing = search(off()).render(None);
    assert!(matches!(missing, Err(RenderError::Base { at, .. }) if at == "base"));
}

#[test]
fn yaml_that_readers_disagree_on_or_that_grows_is_refused() {
    let bomb = (1..9).fold("a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned(), |yaml, n| {
        let items = vec![format!("*a{}", n - 1); 9].join(", ");
        format!("{yaml}a{n}: &a{n} [{items}]\n")
    });
    for base in [
        bomb.as_str(),
        "a: 1\na: 2\n",
        "a: &x { b: 1 }\nc: { <<: *x }\n",
        "a: !ignore 1\n",
        "a: 1\n---\na: 2\n",
        "[a]: 1\n",
        "~: 1\n",
        "a: .inf\n",
        "a: \"\\x\"\n",
        &"[".repeat(100_000),
        &"- ".repeat(10_000),
        "a: *nowhere",
        "\t",
        "",
    ] {
        assert_eq!(refused_base(&search(off()), base).0, "base", "{base:.60}");
    }
}

#[test]
fn a_delay_that_is_not_under_the_timeout_of_a_route_is_refused() {
    for (timeout, longest) in [("timeout: 0.6s", 599.0), ("max_stream_duration: {}", 14_999.0)] {
        assert!(search(on(longest, 10.0)).render(Some(&route(timeout))).is_ok());
        let (target, problem) = refused_orders(&search(on(longest + 0.1, 10.0)), Some(&route(timeout)));
        assert_eq!(target, "search");
        assert!(
            problem.starts_with("resources[0].virtual_hosts[0].routes[0]: Envoy never hedges after"),
            "{problem}"
        );
    }
    assert!(
        search(on(3_600_000.0, 10.0))
            .render(Some(&route("timeout: 0s")))
            .is_ok(),
        "0 is without end"
    );
}
