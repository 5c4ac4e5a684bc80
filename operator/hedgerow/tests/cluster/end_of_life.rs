//! What becomes of outputs that nobody wants any longer.

use hedgerow::cluster::{Change, DesiredConfigMap, EndOfLife, Owner, Retirement};
use hedgerow_api::names::RELEASED_ANNOTATION;
use hedgerow_tests::Namespace;
use hedgerow_tuner::Reason;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::scene::{
    CONFIG_MAP, HOUR, KEY, NOW, View, desired, document, hedging, is_absent, published_stage,
    remembers_hedging, stage,
};

/// What a policy with `expiry: never` wants.
fn desired_for_ever(owner: &Owner) -> DesiredConfigMap {
    let mut desired = desired(owner, 512.0);
    desired
        .documents
        .insert(KEY.to_owned(), hedging(owner, 512.0, NOW, None));
    desired.end_of_life = EndOfLife::Left;
    desired
}

async fn delete_policy(namespace: &Namespace, view: &View, owner: &Owner) {
    namespace
        .kubectl(&["delete", "hedgepolicy", &owner.policy.name])
        .await
        .unwrap();
    view.sees("the deletion is seen", |view| {
        view.policies.get(&owner.policy).is_none()
    })
    .await;
}

#[tokio::test]
async fn a_document_that_never_expires_is_written_off_and_left_when_its_policy_goes() {
    let (namespace, owner, view) = stage("never").await;
    let wanted = desired_for_ever(&owner);
    let published = view.publisher.publish(&wanted, NOW).await.unwrap();
    assert_eq!(published.validity, None);
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert_eq!(
        live.metadata.owner_references, None,
        "garbage collection must not remove it"
    );
    assert!(view.outputs.orphans().is_empty());
    delete_policy(&namespace, &view, &owner).await;
    drop(view);

    // An operator that starts later finds it as well.
    let later = View::of(&namespace).await;
    let orphans = later.outputs.orphans();
    assert_eq!(orphans.len(), 1);
    let retirement = later
        .publisher
        .release(&orphans[0].name, &owner, NOW)
        .await
        .unwrap();

    assert_eq!(retirement, Retirement::Released);
    let live = later.caught_up(&namespace, CONFIG_MAP).await;
    let off = document(&live, KEY).unwrap();
    assert!(off.hedging.is_none());
    assert_eq!((off.reason.as_str(), off.revision), ("Stopped", 2));
    assert!(
        live.metadata
            .annotations
            .unwrap()
            .contains_key(RELEASED_ANNOTATION)
    );
    assert!(later.outputs.orphans().is_empty(), "done once");
}

#[tokio::test]
async fn a_policy_whose_expiry_changes_has_its_documents_and_their_end_changed() {
    let (namespace, owner, view) = published_stage("expiry").await;

    let published = view
        .publisher
        .publish(&desired_for_ever(&owner), NOW)
        .await
        .unwrap();
    assert_eq!((published.change, published.validity), (Change::Updated, None));
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert_eq!(document(&live, KEY).unwrap().validity.valid_until, None);
    assert_eq!(live.metadata.owner_references, None);

    let published = view.publish(&owner, 512.0).await.unwrap();
    assert_eq!(published.change, Change::Updated);
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert_eq!(
        document(&live, KEY).unwrap().validity.valid_until,
        Some(NOW.plus(HOUR))
    );
    assert_eq!(live.metadata.owner_references.unwrap().len(), 1);
}

#[tokio::test]
async fn an_output_that_leaves_the_spec_is_written_off_and_deleted_when_it_expires() {
    let (namespace, owner, view) = stage("retire").await;
    let wanted = desired(&owner, 512.0);
    view.publisher.publish(&wanted, NOW).await.unwrap();

    let later = NOW.plus(HOUR / 2);
    let retirement = view.publisher.retire(&wanted.name, &owner, later).await.unwrap();
    assert_eq!(retirement, Retirement::Until(later.plus(HOUR)));
    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert!(document(&live, KEY).unwrap().hedging.is_none());
    assert!(live.metadata.owner_references.is_some());

    let retirement = view
        .publisher
        .retire(&wanted.name, &owner, later.plus(HOUR / 2))
        .await
        .unwrap();
    assert_eq!(
        retirement,
        Retirement::Until(later.plus(HOUR)),
        "waiting prolongs nothing"
    );

    let retirement = view
        .publisher
        .retire(&wanted.name, &owner, later.plus(HOUR))
        .await
        .unwrap();
    assert_eq!(retirement, Retirement::Gone);
    assert!(is_absent(&namespace).await);
}

#[tokio::test]
async fn what_another_policy_has_taken_over_is_not_ended() {
    let (namespace, owner, view) = stage("not-ended").await;
    let wanted = desired(&owner, 512.0);
    view.publisher.publish(&wanted, NOW).await.unwrap();
    let before = view.caught_up(&namespace, CONFIG_MAP).await;

    let other = Owner {
        uid: "the-policy-before".into(),
        ..owner
    };
    assert_eq!(
        view.publisher.retire(&wanted.name, &other, NOW).await.unwrap(),
        Retirement::Gone
    );
    assert_eq!(
        view.publisher.release(&wanted.name, &other, NOW).await.unwrap(),
        Retirement::Gone
    );

    assert_eq!(
        namespace.api::<ConfigMap>().get(CONFIG_MAP).await.unwrap(),
        before
    );
}

#[tokio::test]
async fn an_output_whose_policy_cannot_be_rendered_is_written_off() {
    let (namespace, owner, view) = stage("write-off").await;
    let wanted = desired(&owner, 512.0);
    view.publisher.publish(&wanted, NOW).await.unwrap();
    let later = NOW.plus(HOUR / 10);

    view.publisher
        .write_off(&wanted.name, &owner, Reason::Invalid, later)
        .await
        .unwrap();

    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    let off = document(&live, KEY).unwrap();
    assert_eq!((off.hedging, off.reason.as_str()), (None, "Invalid"));
    assert_eq!(off.validity.valid_until, Some(later.plus(HOUR)));

    let again = view
        .publisher
        .write_off(&wanted.name, &owner, Reason::Invalid, later)
        .await
        .unwrap();
    assert_eq!(again.change, Change::Unchanged);
}

#[tokio::test]
async fn a_target_whose_documents_were_written_off_is_remembered_as_off() {
    let (namespace, owner, view) = stage("remembered-off").await;
    let mut wanted = desired(&owner, 512.0);
    wanted.memory.insert("shard-read".to_owned(), remembers_hedging());
    let memory = async || {
        view.caught_up(&namespace, CONFIG_MAP).await;
        view.outputs.memory(&owner.uid, "shard-read").unwrap()
    };

    view.publisher.publish(&wanted, NOW).await.unwrap();
    assert!(memory().await.lets_hedge());
    view.publisher.retire(&wanted.name, &owner, NOW).await.unwrap();
    let retired = memory().await;
    assert!(!retired.lets_hedge(), "or it would come back at full budget");
    assert_eq!(retired.revision, 8);

    view.publisher.publish(&wanted, NOW).await.unwrap();
    assert!(memory().await.lets_hedge());
    view.publisher
        .write_off(&wanted.name, &owner, Reason::Invalid, NOW)
        .await
        .unwrap();
    assert!(!memory().await.lets_hedge());
}

#[tokio::test]
async fn a_key_that_is_leaving_calls_for_no_renewals() {
    let (_namespace, owner, view) = stage("leaving").await;
    let mut both = desired(&owner, 512.0);
    both.documents
        .insert("old.json".to_owned(), both.documents[KEY].clone());
    view.publisher.publish(&both, NOW).await.unwrap();
    let one = |issued| {
        let mut one = desired(&owner, 512.0);
        one.documents
            .insert(KEY.to_owned(), hedging(&owner, 512.0, issued, Some(HOUR)));
        one.renew = true;
        one
    };
    let removed = view.publisher.publish(&one(NOW), NOW).await.unwrap();
    assert_eq!(removed.again_at, Some(NOW.plus(HOUR)));

    let later = NOW.plus(HOUR * 2 / 3);
    let renewed = view.publisher.publish(&one(later), later).await.unwrap();
    assert_eq!(renewed.change, Change::Updated);
    assert_eq!(renewed.validity.unwrap().issued_at, later, "it is done");
    let second = std::time::Duration::from_secs(1);
    let again = view
        .publisher
        .publish(&one(later.plus(second)), later.plus(second))
        .await
        .unwrap();
    assert_eq!(again.change, Change::Unchanged, "not once a second");
}

/// A policy stored before the schema, say: its outputs cannot be read from it, and they are its own all the same.
#[tokio::test]
async fn documents_of_a_policy_that_no_longer_names_them_can_be_written_off() {
    let (namespace, owner, view) = stage("unnamed").await;
    view.publish(&owner, 512.0).await.unwrap();
    let patch = r#"[{"op": "replace", "path": "/spec/publish/0/configMap", "value": "other"}]"#;
    let name = &owner.policy.name;
    namespace
        .kubectl(&["patch", "hedgepolicy", name, "--type=json", "-p", patch])
        .await
        .unwrap();
    let config_map = desired(&owner, 512.0).name;
    view.sees("the edit is seen", |view| {
        view.policies.winner(&config_map).is_none()
    })
    .await;

    view.publisher
        .write_off(&config_map, &owner, Reason::Invalid, NOW)
        .await
        .unwrap();

    let live = view.caught_up(&namespace, CONFIG_MAP).await;
    assert!(document(&live, KEY).unwrap().hedging.is_none());
}
