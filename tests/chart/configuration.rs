//! The operator's configuration, as the chart makes it of the values, is one that the operator takes.

use std::collections::BTreeSet;

use hedgerow_tests::{Build, hedgerow, scratch};
use serde_json::{Value, json};

use crate::golden::every_source;
use crate::shared::{find, helm, least, text, with};

/// The configuration file of a release with these values.
pub(crate) async fn configuration(namespace: &str, values: &Value) -> String {
    let objects = helm().objects("hedgerow", namespace, values).await.unwrap();
    let map = find(&objects, "ConfigMap", "hedgerow");
    map["data"]["operator.yaml"].as_str().unwrap().to_owned()
}

/// Every key that can be said in a configuration, as paths; those of sources once for all of them.
fn keys(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        // Its keys are the user's.
        Value::Object(_) if path == "sources.headers" => {}
        Value::Object(map) => {
            for (key, value) in map {
                let path = format!("{path}.{key}").trim_start_matches('.').to_owned();
                keys(value, &path, found);
                found.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| keys(item, path, found)),
        _ => {}
    }
}

/// What `examples/operator.yaml` describes, what it says in comments included.
fn described() -> BTreeSet<String> {
    let said: String = text("examples/operator.yaml")
        .lines()
        .map(|line| {
            // A key in a comment, or what is under it: its name is one word.
            let commented = line.strip_prefix("  # ").filter(|text| {
                let key = text.split(':').next().unwrap().trim_start();
                text.contains(':') && !key.contains(' ')
            });
            commented.map_or_else(|| format!("{line}\n"), |text| format!("  {text}\n"))
        })
        .collect();
    let described: Value = serde_saphyr::from_str(&said).unwrap_or_else(|error| panic!("{error}\n{said}"));
    let mut found = BTreeSet::new();
    keys(&described, "", &mut found);
    found
}

#[tokio::test]
async fn every_key_of_the_configuration_can_be_said_in_values() {
    let values = with(
        least(),
        json!({
            "sources": every_source(), "watchNamespaces": ["helpdesk", "shop"], "listen": { "statusPagePort": 8082 },
        }),
    );
    let rendered = configuration("home", &values).await;
    let rendered: Value = serde_saphyr::from_str(&rendered).unwrap();
    let mut found = BTreeSet::new();
    keys(&rendered, "", &mut found);
    let mut described = described();
    // In a pod it is the pod's own: one that is said could only be wrong.
    assert!(described.remove("namespace"));
    assert_eq!(found, described);
}

#[tokio::test]
async fn the_operator_takes_the_configuration_of_every_way_to_reach_a_source() {
    for (case, values) in [
        ("least", json!({})),
        ("sources", json!({ "sources": every_source() })),
        (
            "namespaces",
            json!({ "watchNamespaces": ["helpdesk"], "nudge": true, "propagation": "1s" }),
        ),
        ("ipv6", json!({ "listen": { "address": "::" } })),
    ] {
        let file = scratch("configuration").unwrap().join("operator.yaml");
        std::fs::write(&file, configuration("home", &with(least(), values)).await).unwrap();
        // Without a cluster it gets no further than this.
        let output = std::process::Command::new(hedgerow(Build::Debug).unwrap())
            .args(["run", "--log-format", "text", "--config"])
            .arg(&file)
            .env("KUBECONFIG", "/nonexistent")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.starts_with("error: namespace: is not set"), "{case}: {said}");
    }
}

/// A file that is mounted is where the configuration says that it is.
#[tokio::test]
async fn every_file_of_a_source_is_mounted_where_it_is_read() {
    let values = with(least(), json!({ "sources": every_source() }));
    let objects = helm().objects("hedgerow", "home", &values).await.unwrap();
    let pod = &find(&objects, "Deployment", "hedgerow")["spec"]["template"]["spec"];
    let mut mounted = BTreeSet::new();
    for mount in pod["containers"][0]["volumeMounts"].as_array().unwrap() {
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes
            .iter()
            .find(|volume| volume["name"] == mount["name"])
            .unwrap();
        for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
            let of = source.as_object().unwrap().values().next().unwrap();
            for item in of["items"].as_array().unwrap() {
                mounted.insert(format!(
                    "{}/{}",
                    mount["mountPath"].as_str().unwrap(),
                    item["path"].as_str().unwrap()
                ));
            }
        }
    }
    let rendered = configuration("home", &values).await;
    let read: BTreeSet<_> = rendered
        .lines()
        .filter(|line| line.contains("File: /etc/"))
        .map(|line| line.split_once(": ").unwrap().1.to_owned())
        .collect();
    assert_eq!(mounted, read);
    assert_eq!(mounted.len(), 6, "{mounted:?}");
}
