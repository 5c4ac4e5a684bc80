//! Writing a ConfigMap, and leaving it alone.

use hedgerow::cluster::{Change, NamespacedName, PublishError};
use hedgerow_api::names::{INSTANCE_ANNOTATION, MANAGED_BY_LABEL, POLICY_ANNOTATION, ROLE_LABEL};

use crate::scene::{
    CONFIG_MAP, HOUR, INSTANCE, KEY, NOW, PATIENCE, View, control_plane, desired, document, hedging,
    is_absent, published_stage, remembers_hedging, stage,
};

/// Requests to write the ConfigMap of a namespace.
async fn writes(namespace: &hedgerow_tests::Namespace) -> usize {
    let events = control_plane().await.audit().since(Default::default()).unwrap();
    let ours = events.iter().filter(|event| {
        let object = &event.object_ref;
        event.is_write() && object.resource == "configmaps" && object.namespace == namespace.name()
    });
    ours.count()
}

#[tokio::test]
async fn a_new_config_map_says_whose_it_is() {
    let (namespace, owner, view) = stage("new").await;

    let published = view.publish(&owner, 512.0).await.unwrap();

    assert_eq!(published.change, Change::Created);
    assert_eq!(published.validity.unwrap().valid_until, Some(NOW.plus(HOUR)));
    assert_eq!(published.again_at, None);
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    let (labels, annotations) = (
        live.metadata.labels.as_ref().unwrap(),
        live.metadata.annotations.as_ref().unwrap(),
    );
    assert_eq!(labels[MANAGED_BY_LABEL], "hedgerow");
    assert_eq!(labels[ROLE_LABEL], "output");
    assert_eq!(annotations[POLICY_ANNOTATION], format!("{}/kb", namespace.name()));
    assert_eq!(annotations[INSTANCE_ANNOTATION], INSTANCE);
    let references = live.metadata.owner_references.as_ref().unwrap();
    assert_eq!(references.len(), 1);
    assert_eq!(references[0].uid, owner.uid);
    assert_eq!(references[0].controller, Some(true));
    assert_eq!(references[0].block_owner_deletion, None);
    assert!(document(&live, KEY).unwrap().hedging.is_some());
    assert!(view.outputs.memory(&owner.uid, "shard-read").is_some());
}

#[tokio::test]
async fn publishing_the_same_again_sends_nothing() {
    let (namespace, owner, view) = published_stage("same").await;
    let before = writes(&namespace).await;

    for _ in 0..5 {
        let published = view.publish(&owner, 512.0).await.unwrap();
        assert_eq!(published.change, Change::Unchanged);
    }

    assert_eq!(writes(&namespace).await, before);
}

#[tokio::test]
async fn a_restart_writes_nothing_although_it_would_issue_documents_anew() {
    let (namespace, owner, view) = published_stage("restart").await;
    drop(view);
    let before = writes(&namespace).await;

    let restarted = View::of(&namespace).await;
    let later = NOW.plus(HOUR / 10);
    let mut again = desired(&owner, 512.0);
    again
        .documents
        .insert(KEY.to_owned(), hedging(&owner, 512.0, later, Some(HOUR)));
    let published = restarted.publisher.publish(&again, later).await.unwrap();

    assert_eq!(published.change, Change::Unchanged);
    assert_eq!(
        published.validity.unwrap().issued_at,
        NOW,
        "what is there tells when to renew"
    );
    assert_eq!(writes(&namespace).await, before);
}

#[tokio::test]
async fn a_renewal_moves_the_times() {
    let (namespace, owner, view) = published_stage("renew").await;

    let later = NOW.plus(HOUR / 10);
    let mut early = desired(&owner, 512.0);
    early
        .documents
        .insert(KEY.to_owned(), hedging(&owner, 512.0, later, Some(HOUR)));
    early.renew = true;
    let published = view.publisher.publish(&early, later).await.unwrap();
    assert_eq!(published.change, Change::Unchanged, "not due yet");

    let later = NOW.plus(HOUR * 2 / 3);
    let mut renewed = desired(&owner, 512.0);
    renewed
        .documents
        .insert(KEY.to_owned(), hedging(&owner, 512.0, later, Some(HOUR)));
    renewed.renew = true;
    let published = view.publisher.publish(&renewed, later).await.unwrap();

    assert_eq!(published.change, Change::Updated);
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert_eq!(
        document(&live, KEY).unwrap().validity.valid_until,
        Some(later.plus(HOUR))
    );
}

#[tokio::test]
async fn a_write_of_what_is_remembered_alone_is_told_from_one_of_documents() {
    let (namespace, owner, view) = published_stage("memory-alone").await;
    let mut remembering = desired(&owner, 512.0);
    remembering
        .memory
        .insert("shard-read".to_owned(), remembers_hedging());
    let noted = view.publisher.publish(&remembering, NOW).await.unwrap();
    assert_eq!(noted.change, Change::Noted);
    view.caught_up(&namespace, CONFIG_MAP).await;
    remembering
        .documents
        .insert(KEY.to_owned(), hedging(&owner, 600.0, NOW, Some(HOUR)));
    let told = view.publisher.publish(&remembering, NOW).await.unwrap();
    assert_eq!(told.change, Change::Updated);
}

#[tokio::test]
async fn an_edit_by_a_person_is_told_put_back_and_not_told_again() {
    let (namespace, owner, view) = published_stage("drift").await;
    view.changes.take().await;

    let patch = format!(r#"{{"data":{{"{KEY}":"{{}}","notes.txt":"mine"}}}}"#);
    let arguments = [
        "patch",
        "configmap",
        CONFIG_MAP,
        "--type=merge",
        "--field-manager=kubectl-edit",
        "-p",
        &patch,
    ];
    namespace.kubectl(&arguments).await.unwrap();

    let changed = tokio::time::timeout(PATIENCE, view.changes.take()).await.unwrap();
    assert!(changed.contains(&owner.policy));
    let published = view.publish(&owner, 512.0).await.unwrap();
    let editor = Some("kubectl-edit".to_owned());
    assert_eq!(published.change, Change::PutBack { editor });
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert!(document(&live, KEY).unwrap().hedging.is_some());
    assert_eq!(
        live.data.unwrap()["notes.txt"],
        "mine",
        "a key that is not ours is left alone"
    );

    let before = writes(&namespace).await;
    let again = view.publish(&owner, 512.0).await.unwrap();
    assert_eq!(again.change, Change::Unchanged);
    assert_eq!(writes(&namespace).await, before);
}

#[tokio::test]
async fn a_config_map_that_somebody_deletes_is_put_back() {
    let (namespace, owner, view) = published_stage("deleted").await;

    namespace
        .kubectl(&["delete", "configmap", CONFIG_MAP])
        .await
        .unwrap();

    let name = NamespacedName::new(namespace.name(), CONFIG_MAP);
    view.sees("the deletion is seen", |view| view.outputs.get(&name).is_none())
        .await;
    let published = view.publish(&owner, 512.0).await.unwrap();
    assert_eq!(published.change, Change::PutBack { editor: None });
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert!(document(&live, KEY).unwrap().hedging.is_some());
}

#[tokio::test]
async fn a_label_that_somebody_removes_is_put_back() {
    let (namespace, owner, view) = published_stage("label").await;

    let label = format!("{ROLE_LABEL}-");
    namespace
        .kubectl(&["label", "configmap", CONFIG_MAP, &label])
        .await
        .unwrap();

    let name = NamespacedName::new(namespace.name(), CONFIG_MAP);
    view.sees("it leaves the watch", |view| view.outputs.get(&name).is_none())
        .await;
    view.publish(&owner, 512.0).await.unwrap();
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert_eq!(live.metadata.labels.unwrap()[ROLE_LABEL], "output");
}

#[tokio::test]
async fn a_key_that_leaves_the_spec_is_written_off_and_deleted_when_it_expires() {
    let (namespace, owner, view) = stage("key").await;
    let mut both = desired(&owner, 512.0);
    both.documents
        .insert("old.json".to_owned(), hedging(&owner, 512.0, NOW, Some(HOUR)));
    view.publisher.publish(&both, NOW).await.unwrap();
    view.caught_up(&namespace, CONFIG_MAP).await;

    let later = NOW.plus(HOUR / 2);
    let published = view
        .publisher
        .publish(&desired(&owner, 512.0), later)
        .await
        .unwrap();
    assert_eq!(published.again_at, Some(later.plus(HOUR)));
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert!(document(&live, "old.json").unwrap().hedging.is_none());
    assert!(document(&live, KEY).unwrap().hedging.is_some());

    let just_before = later.plus(HOUR - HOUR / 100);
    let published = view
        .publisher
        .publish(&desired(&owner, 512.0), just_before)
        .await
        .unwrap();
    assert_eq!(published.change, Change::Unchanged);

    let published = view
        .publisher
        .publish(&desired(&owner, 512.0), later.plus(HOUR))
        .await
        .unwrap();
    assert_eq!((published.change, published.again_at), (Change::Updated, None));
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert!(document(&live, "old.json").is_none());
}

#[tokio::test]
async fn nothing_is_published_for_a_policy_that_is_gone() {
    let (namespace, owner, view) = stage("gone").await;
    namespace.kubectl(&["delete", "hedgepolicy", "kb"]).await.unwrap();
    view.sees("the deletion is seen", |view| {
        view.policies.get(&owner.policy).is_none()
    })
    .await;

    let result = view.publish(&owner, 512.0).await;

    assert_eq!(result, Err(PublishError::PolicyGone));
    assert!(is_absent(&namespace).await);
}
