//! What a service links with the client.

#![allow(clippy::unwrap_used)] // Helpers of tests.

use std::collections::BTreeSet;
use std::process::Command;

/// The names of the crates that are linked with these features of the client.
fn linked(features: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--package",
            "hedgerow-client",
            "--edges",
            "normal",
            "--prefix",
            "none",
        ])
        .args(["--locked", "--offline"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8(output.stdout).unwrap();
    let name = |line: &str| line.split(' ').next().map(str::to_owned);
    tree.lines().filter_map(name).collect()
}

#[test]
fn kube_is_linked_only_where_its_feature_asks_for_it_and_tower_only_where_not_refused() {
    let kubernetes = |crates: &BTreeSet<String>| {
        let of_kubernetes = |name: &&String| name.starts_with("kube") || name.starts_with("k8s");
        crates.iter().any(|name| of_kubernetes(&name))
    };
    let default = linked(&[]);
    assert!(!kubernetes(&default), "{default:?}");
    assert!(default.contains("tower") && default.contains("http"));

    let least = linked(&["--no-default-features"]);
    assert!(
        !kubernetes(&least) && !least.contains("tower") && !least.contains("http"),
        "{least:?}"
    );

    assert!(kubernetes(&linked(&["--features", "kube"])));
}
