//! Each way in which a write is refused says what to do.

use hedgerow::cluster::{PublishError, Published};

use crate::scene::{
    CONFIG_MAP, NOW, PATIENCE, View, control_plane, create_policy, desired, is_absent, namespace,
    published_stage, stage,
};

fn reason(result: &Result<Published, PublishError>) -> &'static str {
    result.as_ref().map_or_else(PublishError::reason, |_| "written")
}

#[tokio::test]
async fn an_immutable_config_map_is_told() {
    let (namespace, owner, view) = published_stage("immutable").await;
    let patch = [
        "patch",
        "configmap",
        CONFIG_MAP,
        "--type=merge",
        "-p",
        r#"{"immutable":true}"#,
    ];
    namespace.kubectl(&patch).await.unwrap();
    view.caught_up(&namespace, CONFIG_MAP).await;

    let result = view.publish(&owner, 300.0).await;

    assert_eq!(reason(&result), "Immutable", "{result:?}");
    assert!(result.unwrap_err().to_string().contains("delete it"));
}

#[tokio::test]
async fn an_admission_policy_that_refuses_is_told() {
    let namespace = namespace("denied").await;
    let owner = create_policy(&namespace, "kb").await;
    namespace.refuse_config_maps().await.unwrap();
    hedgerow_tests::eventually("the admission policy is in force", PATIENCE, async || {
        let probe = ["create", "configmap", "probe", "--dry-run=server"];
        anyhow::ensure!(namespace.kubectl(&probe).await.is_err());
        Ok(())
    })
    .await
    .unwrap();
    let view = View::of(&namespace).await;

    let result = view.publish(&owner, 512.0).await;

    assert_eq!(reason(&result), "Denied", "{result:?}");
    assert!(result.unwrap_err().to_string().contains("not here"));
}

#[tokio::test]
async fn a_namespace_that_is_being_deleted_is_told() {
    let (namespace, owner, view) = stage("terminating").await;
    // No controller runs here that would end it, so it stays in this state.
    let kubectl = control_plane().await.kubectl().unwrap();
    kubectl
        .run(&["delete", "namespace", namespace.name(), "--wait=false"])
        .await
        .unwrap();

    let result = view.publish(&owner, 512.0).await;

    assert_eq!(reason(&result), "NamespaceTerminating", "{result:?}");
    assert!(is_absent(&namespace).await);
}

#[tokio::test]
async fn a_document_that_is_too_large_is_told() {
    let (_namespace, owner, view) = stage("large").await;
    let mut large = desired(&owner, 512.0);
    large.documents.insert("large".into(), "x".repeat(1_100_000));

    let result = view.publisher.publish(&large, NOW).await;

    assert_eq!(reason(&result), "Rejected", "{result:?}");
}
