//! How a policy reads in kubectl.

use crate::policy::policy;
use crate::scene::Scene;

#[tokio::test]
async fn get_and_describe_tell_the_state_at_a_glance() {
    let scene = Scene::start("kubectl").await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    scene.condition("kb", "HedgingDisabled", "False", "Hedging").await;

    let table = scene.namespace.kubectl(&["get", "hp"]).await.unwrap();
    let mut lines = table.lines();
    let header: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!(
        header,
        [
            "NAME", "MODE", "HEDGING", "DELAY", "BUDGET", "REASON", "READY", "AGE"
        ]
    );
    let row: Vec<_> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!((row[0], row[1], row[2]), ("kb", "Enforce", "1/1"), "{table}");
    assert_eq!((row[5], row[6]), ("Tuned", "True"), "{table}");

    let described = scene.namespace.kubectl(&["describe", "hp", "kb"]).await.unwrap();
    for part in [
        "Accepted",
        "Ready",
        "Published",
        "SignalsAvailable",
        "queue",
        "History",
        "Events:",
    ] {
        assert!(described.contains(part), "{part} is missing in:\n{described}");
    }
}
