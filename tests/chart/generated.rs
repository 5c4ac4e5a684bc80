//! What the chart repeats of the rest of the repository is the same there.

use hedgerow_tests::repository;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use crate::shared::{CRD, find, helm, holds, least, text};

#[test]
fn the_crd_in_the_chart_is_the_one_that_the_binary_prints() {
    let copy = repository().join(format!("charts/hedgerow/files/{CRD}.yaml"));
    holds(&copy, &text(&format!("crds/{CRD}.yaml")), "make crds");
}

#[tokio::test]
async fn the_crd_is_rendered_as_it_is_and_kept_at_an_uninstall() {
    let objects = helm().objects("hedgerow", "home", &least()).await.unwrap();
    let mut rendered = find(&objects, "CustomResourceDefinition", CRD).clone();
    let metadata = rendered["metadata"].as_object_mut().unwrap();
    let annotations = metadata.remove("annotations").unwrap();
    assert_eq!(annotations, json!({ "helm.sh/resource-policy": "keep" }));
    assert!(metadata.remove("labels").is_some());
    let shipped: Value = serde_saphyr::from_str(&text(&format!("crds/{CRD}.yaml"))).unwrap();
    // As the API server reads them: 1 and 1.0 are one number there.
    let read = |object| serde_json::from_value::<CustomResourceDefinition>(object).unwrap();
    assert_eq!(read(rendered), read(shipped));
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart: Value = serde_saphyr::from_str(&text("charts/hedgerow/Chart.yaml")).unwrap();
    assert_eq!(chart["appVersion"], env!("CARGO_PKG_VERSION"));
    assert_eq!(chart["version"], env!("CARGO_PKG_VERSION"));
}
