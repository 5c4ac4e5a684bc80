//! Documents in the formats of other systems, over bases that people give.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use hedgerow::cluster::{
    BaseRef, Change, DesiredConfigMap, DesiredForm, EndOfLife, Instead, NamespacedName, Owner, Published,
    Retirement,
};
use hedgerow_api::ConditionReason;
use hedgerow_api::names::RELEASED_ANNOTATION;
use hedgerow_config::{Form, GrpcMethod, Limits, Part};
use hedgerow_tests::{Namespace, eventually};
use hedgerow_tuner::{Hedging, Memory, Orders, Reason};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::scene::{
    CONFIG_MAP, HOUR, NOW, PATIENCE, View, create_policy, hedging, is_absent, remembers_hedging, stage,
};

const KEY: &str = "sc.json";
const OFF_KEY: &str = "sc.json.base";
const BASE: &str = "kb-base";
const FIRST: &str = r#"{"methodConfig": [{"name": [{"service": "search.Shard"}], "timeout": "1s"}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#;
const SECOND: &str = r#"{"methodConfig": [{"name": [{"service": "search.Shard"}], "timeout": "2s"}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#;

fn form(hedges: bool) -> Form {
    let hedging = Hedging {
        delay_ms: 512.0,
        min_remaining_ms: 150.0,
        percent: 10.0,
        min_per_second: 0.0,
    };
    Form::GrpcServiceConfig(vec![Part {
        target: "shard-read".to_owned(),
        orders: Orders {
            hedging: hedges.then_some(hedging),
            reason: if hedges { Reason::Tuned } else { Reason::Saturated },
        },
        limits: Limits {
            deadline: Some(Duration::from_secs(1)),
            max_attempts: 2,
            max_concurrent: 100,
        },
        place: GrpcMethod {
            service: "search.Shard".to_owned(),
            method: None,
        },
    }])
}

/// What the policy wants: a document over [`BASE`].
fn wanted(owner: &Owner, hedges: bool) -> DesiredConfigMap {
    let namespace = &owner.policy.namespace;
    let memory = if hedges {
        remembers_hedging()
    } else {
        Memory::default()
    };
    let form = DesiredForm {
        form: form(hedges),
        off: form(false),
        hedged: hedges.then(|| "shard-read".to_owned()).into_iter().collect(),
        base: Some(BaseRef {
            config_map: NamespacedName::new(namespace, BASE),
            key: KEY.to_owned(),
        }),
        may_join: false,
    };
    DesiredConfigMap {
        name: NamespacedName::new(namespace, CONFIG_MAP),
        owner: owner.clone(),
        end_of_life: EndOfLife::Left,
        documents: BTreeMap::new(),
        forms: BTreeMap::from([(KEY.to_owned(), form)]),
        memory: BTreeMap::from([("shard-read".to_owned(), memory)]),
        renew: true,
    }
}

/// Gives a base with that text and those labels.
async fn give(namespace: &Namespace, text: &str, labels: serde_json::Value) {
    let base = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": BASE, "labels": labels }, "data": { KEY: text },
    });
    namespace.apply(&base.to_string()).await.unwrap();
}

fn agreed() -> serde_json::Value {
    json!({ "hedgerow.dev/role": "base" })
}

async fn publish(view: &View, wanted: &DesiredConfigMap) -> Published {
    view.publisher.publish(wanted, NOW).await.unwrap()
}

/// The document and its off form, once this view knows them as they are.
async fn texts(view: &View, namespace: &Namespace) -> (String, String) {
    let live = view.caught_up(namespace, CONFIG_MAP).await;
    let data = live.data.unwrap();
    (data[KEY].clone(), data[OFF_KEY].clone())
}

/// A person edits keys of the ConfigMap that is published.
async fn edited(namespace: &Namespace, data: serde_json::Value) {
    let edit = json!({ "data": data });
    let params = PatchParams {
        field_manager: Some("somebody".into()),
        ..PatchParams::default()
    };
    let maps = namespace.api::<ConfigMap>();
    maps.patch(CONFIG_MAP, &params, &Patch::Merge(&edit))
        .await
        .unwrap();
}

/// What a person makes of a document and of its off form.
fn mine() -> serde_json::Value {
    json!({ KEY: "{\"mine\": 1}", OFF_KEY: "{\"mine\": 2}" })
}

/// Publishes again and again, as the watch of bases tells it to, until it comes to what is waited for.
async fn published_once(
    view: &View,
    wanted: &DesiredConfigMap,
    what: &str,
    holds: impl Fn(&Published) -> bool,
) -> Published {
    eventually(what, PATIENCE, async || {
        let published = view.publisher.publish(wanted, NOW).await?;
        ensure!(holds(&published), "it came to {published:?}");
        Ok(published)
    })
    .await
    .unwrap()
}

/// Whether the document is not as it should be.
fn has_fault(published: &Published) -> bool {
    !published.faults.is_empty()
}

/// A namespace with the policy `kb` whose document is over [`BASE`], and an operator that has published it.
async fn hedged_stage(name: &str) -> (Namespace, Owner, View) {
    let (namespace, owner, view) = stage(name).await;
    give(&namespace, FIRST, agreed()).await;
    assert_eq!(
        publish(&view, &wanted(&owner, false)).await.change,
        Change::Created
    );
    let published = publish(&view, &wanted(&owner, true)).await;
    assert!(
        published.faults.is_empty() && published.joining.is_empty(),
        "{published:?}"
    );
    (namespace, owner, view)
}

#[tokio::test]
async fn a_document_is_written_over_its_base_and_never_renewed() {
    let (namespace, owner, view) = hedged_stage("over-base").await;
    let (text, off) = texts(&view, &namespace).await;
    assert!(text.contains("\"0.512s\""), "{text}");
    assert_eq!(off, FIRST);
    let live = namespace.api::<ConfigMap>().get(CONFIG_MAP).await.unwrap();
    assert_eq!(live.metadata.owner_references, None, "it outlives its policy");

    let later = view
        .publisher
        .publish(&wanted(&owner, true), NOW.plus(HOUR * 100))
        .await
        .unwrap();
    assert_eq!(
        (later.change, later.validity, later.again_at),
        (Change::Unchanged, None, None)
    );

    let off = publish(&view, &wanted(&owner, false)).await;
    assert_eq!((off.change, off.safer), (Change::Updated, true));
    assert_eq!(
        texts(&view, &namespace).await,
        (FIRST.to_owned(), FIRST.to_owned())
    );
}

#[tokio::test]
async fn a_base_that_is_gone_keeps_nobody_from_being_switched_off() {
    let (namespace, owner, view) = hedged_stage("base-gone").await;
    let before = texts(&view, &namespace).await;
    namespace.kubectl(&["delete", "configmap", BASE]).await.unwrap();
    let on = published_once(&view, &wanted(&owner, true), "the base is missed", has_fault).await;
    let fault = &on.faults[KEY];
    assert_eq!(
        (fault.reason, fault.instead),
        (ConditionReason::BaseMissing, Instead::OldBase)
    );
    assert_eq!(
        (on.change, texts(&view, &namespace).await),
        (Change::Unchanged, before)
    );
    publish(&view, &wanted(&owner, false)).await;
    assert_eq!(
        texts(&view, &namespace).await,
        (FIRST.to_owned(), FIRST.to_owned())
    );
}

#[tokio::test]
async fn an_edit_of_a_base_is_published_unless_it_cannot_be_used() {
    let (namespace, owner, view) = hedged_stage("base-edited").await;
    give(&namespace, SECOND, agreed()).await;
    let is_news = |published: &Published| published.change == Change::Updated;
    published_once(&view, &wanted(&owner, true), "the new base is seen", is_news).await;
    let good = texts(&view, &namespace).await;
    assert!(good.0.contains("2s") && good.0.contains("0.512s"), "{}", good.0);
    assert_eq!(good.1, SECOND);

    give(&namespace, "{", agreed()).await;
    let bad = published_once(&view, &wanted(&owner, true), "the bad base is seen", has_fault).await;
    let fault = &bad.faults[KEY];
    assert_eq!(
        (fault.reason, fault.instead),
        (ConditionReason::BaseInvalid, Instead::OldBase)
    );
    assert_eq!(texts(&view, &namespace).await, good);
}

#[tokio::test]
async fn a_base_without_its_label_is_not_used() {
    let (namespace, owner, view) = stage("base-unlabelled").await;
    give(&namespace, FIRST, json!({})).await;
    let published = publish(&view, &wanted(&owner, true)).await;
    let fault = &published.faults[KEY];
    assert_eq!(
        (fault.reason, fault.instead),
        (ConditionReason::BaseNotLabelled, Instead::Nothing)
    );
    assert!(
        is_absent(&namespace).await,
        "pods that mount it wait, and do not start without routes"
    );

    give(&namespace, FIRST, agreed()).await;
    let is_there = |published: &Published| published.change == Change::Created;
    published_once(&view, &wanted(&owner, false), "the label is seen", is_there).await;
}

#[tokio::test]
async fn what_hedgerow_writes_is_no_base() {
    let (namespace, owner, view) = stage("base-output").await;
    give(&namespace, FIRST, agreed()).await;
    namespace
        .kubectl(&["annotate", "configmap", BASE, "hedgerow.dev/policy-uid=u"])
        .await
        .unwrap();
    let published = publish(&view, &wanted(&owner, true)).await;
    assert_eq!(published.faults[KEY].reason, ConditionReason::BaseInvalid);
    assert!(is_absent(&namespace).await);
}

#[tokio::test]
async fn a_persons_edits_of_a_document_and_of_its_off_form_are_put_back() {
    let (namespace, owner, view) = hedged_stage("forms-edited").await;
    let before = texts(&view, &namespace).await;
    for edit in [
        json!({ KEY: "{}" }),
        json!({ OFF_KEY: "{}" }),
        json!({ KEY: null, OFF_KEY: null }),
    ] {
        edited(&namespace, edit).await;
        view.caught_up(&namespace, CONFIG_MAP).await;
        let published = publish(&view, &wanted(&owner, true)).await;
        assert!(
            matches!(published.change, Change::PutBack { .. }),
            "{published:?}"
        );
        assert_eq!(texts(&view, &namespace).await, before);
    }
}

#[tokio::test]
async fn a_document_is_switched_off_by_what_is_in_its_config_map_alone() {
    let (namespace, owner, view) = hedged_stage("forms-write-off").await;
    namespace.kubectl(&["delete", "configmap", BASE]).await.unwrap();
    drop(view);
    let view = View::of(&namespace).await;
    let name = NamespacedName::new(namespace.name(), CONFIG_MAP);

    let off = view
        .publisher
        .write_off(&name, &owner, Reason::Invalid, NOW)
        .await
        .unwrap();
    assert_eq!((off.change, off.safer), (Change::Updated, true));
    assert_eq!(
        texts(&view, &namespace).await,
        (FIRST.to_owned(), FIRST.to_owned())
    );
    let again = view
        .publisher
        .write_off(&name, &owner, Reason::Invalid, NOW.plus(HOUR))
        .await
        .unwrap();
    assert_eq!(again.change, Change::Unchanged);
    assert!(
        !view
            .outputs
            .memory(&owner.uid, "shard-read")
            .unwrap()
            .lets_hedge()
    );
}

#[tokio::test]
async fn a_document_that_nobody_wants_any_longer_is_written_off_and_left_until_it_is_wanted_again() {
    let (namespace, owner, view) = hedged_stage("forms-released").await;
    let name = NamespacedName::new(namespace.name(), CONFIG_MAP);
    view.caught_up(&namespace, CONFIG_MAP).await;
    let end = view.publisher.retire(&name, &owner, NOW).await.unwrap();
    assert_eq!(end, Retirement::Released);
    assert_eq!(
        texts(&view, &namespace).await,
        (FIRST.to_owned(), FIRST.to_owned())
    );
    let live = namespace.api::<ConfigMap>().get(CONFIG_MAP).await.unwrap();
    assert!(
        live.metadata
            .annotations
            .unwrap()
            .contains_key(RELEASED_ANNOTATION)
    );

    publish(&view, &wanted(&owner, true)).await;
    let (text, _) = texts(&view, &namespace).await;
    assert!(text.contains("hedgingPolicy"));
    let live = namespace.api::<ConfigMap>().get(CONFIG_MAP).await.unwrap();
    assert!(
        !live
            .metadata
            .annotations
            .unwrap()
            .contains_key(RELEASED_ANNOTATION)
    );

    namespace.kubectl(&["delete", "hedgepolicy", "kb"]).await.unwrap();
    view.sees("the deletion is seen", |view| view.outputs.orphans().len() == 1)
        .await;
    let end = view.publisher.release(&name, &owner, NOW).await.unwrap();
    assert_eq!(end, Retirement::Released);
    assert_eq!(texts(&view, &namespace).await.0, FIRST);

    let heir = create_policy(&namespace, "kb").await;
    view.policy(&heir.policy).await;
    let published = publish(&view, &wanted(&heir, false)).await;
    assert_eq!(published.change, Change::TakenOver);
    assert_eq!(texts(&view, &namespace).await.1, FIRST);
}

#[tokio::test]
async fn a_key_that_leaves_stays_off_and_a_native_document_beside_it_still_ends() {
    let (namespace, owner, view) = hedged_stage("forms-leaving").await;
    let mut native = crate::scene::desired(&owner, 512.0);
    native.documents = BTreeMap::from([("new.json".to_owned(), hedging(&owner, 512.0, NOW, Some(HOUR)))]);
    let published = publish(&view, &native).await;
    assert_eq!(published.change, Change::Updated);
    assert_eq!(
        texts(&view, &namespace).await,
        (FIRST.to_owned(), FIRST.to_owned())
    );
    let live = namespace.api::<ConfigMap>().get(CONFIG_MAP).await.unwrap();
    assert_eq!(
        live.metadata.owner_references, None,
        "what never expires is still in it"
    );
    assert!(live.data.unwrap().contains_key("new.json"));
    assert_eq!(publish(&view, &native).await.change, Change::Unchanged);
}

/// Off is the base twice, and must fit where hedging does.
#[tokio::test]
async fn a_base_that_fits_with_hedging_and_not_without_turns_hedging_off() {
    let (namespace, owner, view) = hedged_stage("no-room").await;
    // Blanks, which are not among what is written with the hedging.
    let large = format!("{FIRST}{}", " ".repeat(600_000));
    give(&namespace, &large, agreed()).await;

    let refused = eventually("the base is refused", PATIENCE, async || {
        let published = view.publisher.publish(&wanted(&owner, true), NOW).await;
        published
            .err()
            .context("it is hedged, and could not be switched off")
    })
    .await
    .unwrap();

    assert_eq!(refused.reason(), "Rejected");
    assert!(refused.to_string().contains("1200"), "{refused}");
    assert_eq!(
        texts(&view, &namespace).await,
        (FIRST.to_owned(), FIRST.to_owned())
    );
    give(&namespace, SECOND, agreed()).await;
    let smaller = published_once(&view, &wanted(&owner, true), "a smaller one is taken on", |_| {
        true
    })
    .await;
    assert!(smaller.faults.is_empty(), "{smaller:?}");
    // Its clients were off, and come back as after every off.
    assert!(smaller.joining.contains(KEY), "{smaller:?}");
    assert_eq!(
        texts(&view, &namespace).await,
        (SECOND.to_owned(), SECOND.to_owned())
    );
    let mut ramped = wanted(&owner, true);
    if let Some(form) = ramped.forms.get_mut(KEY) {
        form.may_join = true;
    }
    publish(&view, &ramped).await;
    let (text, off) = texts(&view, &namespace).await;
    assert!(text.contains("\"0.512s\""), "{text}");
    assert_eq!(off, SECOND);
}

/// Whoever edits both leaves nothing in the ConfigMap by which it could be switched off.
#[tokio::test]
async fn a_document_whose_off_form_was_edited_too_is_switched_off_by_what_was_left_there() {
    let (namespace, owner, view) = hedged_stage("both-edited").await;
    let name = wanted(&owner, true).name;
    let off = (FIRST.to_owned(), FIRST.to_owned());

    edited(&namespace, mine()).await;
    view.caught_up(&namespace, CONFIG_MAP).await;
    let put_back = view
        .publisher
        .write_off(&name, &owner, Reason::Invalid, NOW)
        .await
        .unwrap();
    assert!(matches!(put_back.change, Change::PutBack { .. }), "{put_back:?}");
    assert_eq!(texts(&view, &namespace).await, off);

    edited(&namespace, mine()).await;
    view.caught_up(&namespace, CONFIG_MAP).await;
    let retired = view.publisher.retire(&name, &owner, NOW).await.unwrap();
    assert_eq!(retired, Retirement::Released);
    assert_eq!(texts(&view, &namespace).await, off);
}

/// What a person made of a base may hedge by itself, and after a restart nobody knows the one before.
#[tokio::test]
async fn a_document_whose_off_form_was_edited_while_no_operator_ran_is_left() {
    let (namespace, owner, view) = hedged_stage("both-edited-meanwhile").await;
    let name = wanted(&owner, true).name;
    drop(view);
    edited(&namespace, mine()).await;
    let later = View::of(&namespace).await;
    let left = texts(&later, &namespace).await;
    later
        .publisher
        .write_off(&name, &owner, Reason::Invalid, NOW)
        .await
        .unwrap();
    assert_eq!(texts(&later, &namespace).await, left);
}

/// Though as far as the tuner knows its target hedges on.
#[tokio::test]
async fn a_document_that_goes_off_for_what_cannot_be_said_tells_that_clients_hedge_less() {
    let (namespace, owner, view) = hedged_stage("off-safer").await;
    let mut unsayable = wanted(&owner, true);
    let Some(DesiredForm {
        form: Form::GrpcServiceConfig(parts),
        ..
    }) = unsayable.forms.get_mut(KEY)
    else {
        panic!("another form")
    };
    parts[0].limits.max_attempts = 6;
    view.caught_up(&namespace, CONFIG_MAP).await;

    let published = publish(&view, &unsayable).await;

    assert_eq!(published.faults[KEY].instead, Instead::Off);
    assert!(published.safer, "{published:?}");
    assert!(!publish(&view, &unsayable).await.safer, "once");
}
