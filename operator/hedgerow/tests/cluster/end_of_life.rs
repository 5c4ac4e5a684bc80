//! What becomes of outputs that nobody wants any longer.

use hedgerow::cluster::{DesiredConfigMap, EndOfLife, Owner, RELEASED_ANNOTATION, Retirement};
use hedgerow_tests::{Namespace, eventually};
use hedgerow_tuner::Reason;
use k8s_openapi::api::core::v1::ConfigMap;

use crate::scene::{
    CONFIG_MAP, HOUR, KEY, NOW, PATIENCE, View, create_policy, desired, document, hedging, namespace,
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
    eventually("the deletion is seen", PATIENCE, async || {
        anyhow::ensure!(view.policies.get(&owner.policy).is_none());
        Ok(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_document_that_never_expires_is_written_off_and_left_when_its_policy_goes() {
    let namespace = namespace("never").await;
    let owner = create_policy(&namespace, "kb").await;
    let view = View::of(&namespace).await;
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
async fn an_output_that_leaves_the_spec_is_written_off_and_deleted_when_it_expires() {
    let namespace = namespace("retire").await;
    let owner = create_policy(&namespace, "kb").await;
    let view = View::of(&namespace).await;
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
    assert!(
        namespace
            .api::<ConfigMap>()
            .get_opt(CONFIG_MAP)
            .await
            .unwrap()
            .is_none()
    );
}

#[tokio::test]
async fn what_another_policy_has_taken_over_is_not_ended() {
    let namespace = namespace("not-ended").await;
    let owner = create_policy(&namespace, "kb").await;
    let view = View::of(&namespace).await;
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
    let namespace = namespace("write-off").await;
    let owner = create_policy(&namespace, "kb").await;
    let view = View::of(&namespace).await;
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
    assert_eq!(again.change, hedgerow::cluster::Change::Unchanged);
}
