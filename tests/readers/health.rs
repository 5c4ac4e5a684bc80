//! The statuses of policies in each phase, as the operator wrote them (`tests/samples/status`), and what GitOps makes of them.
//! That they are what it writes is shown by the end-to-end test of the same name, which also records them anew:
//!
//!     HEDGEROW_BLESS=1 make e2e ARGS=health

use hedgerow_tests::{Health, repository};
use serde_json::Value;

#[tokio::test]
async fn each_recorded_phase_has_the_health_that_people_expect() {
    let recorded = |phase: &str| -> Value {
        let file = repository().join(format!("tests/samples/status/{phase}.json"));
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        serde_json::from_str(&text).unwrap()
    };
    for (phase, expected) in Health::expected().unwrap() {
        let health = Health::of(&recorded(&phase)).await.unwrap();
        assert_eq!(health, expected, "{phase}");
    }
}

/// Whoever pastes the ConfigMap has the script that was tested.
#[test]
fn the_config_map_for_argo_cd_holds_the_script() {
    let read = |file: &str| {
        std::fs::read_to_string(repository().join("examples/gitops/argo-cd").join(file)).unwrap()
    };
    let config_map: Value = serde_saphyr::from_str(&read("argocd-cm.yaml")).unwrap();
    let script = &config_map["data"]["resource.customizations.health.hedgerow.dev_HedgePolicy"];
    assert_eq!(script, &read("health.lua"));
}
