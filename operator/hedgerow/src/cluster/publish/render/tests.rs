use std::time::Duration;

use hedgerow_api::names::{FIELD_MANAGER, MEMORY_ANNOTATION};
use hedgerow_config::{
    GrpcMethod, Identity, Limits, LokiClient, NativeDocument, Part, PropertiesPrefix, Validity,
};
use hedgerow_tuner::{Hedging, Orders, Reason, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::super::desired::EndOfLife;
use super::*;
use crate::cluster::{NamespacedName, Owner};

const KEY: &str = "sc.json";
const OFF_KEY: &str = "sc.json.base";

const BASE: &str = r#"{"methodConfig": [{"name": [{"service": "search.Shard"}], "timeout": "1s"}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#;
/// The same with another timeout.
const NEW_BASE: &str = r#"{"methodConfig": [{"name": [{"service": "search.Shard"}], "timeout": "2s"}], "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#;

fn orders(hedges: bool) -> Orders {
    let hedging = Hedging {
        delay_ms: 512.0,
        min_remaining_ms: 150.0,
        percent: 10.0,
        min_per_second: 0.0,
    };
    Orders {
        hedging: hedges.then_some(hedging),
        reason: if hedges { Reason::Tuned } else { Reason::Saturated },
    }
}

fn part<P>(target: &str, hedges: bool, place: P) -> Part<P> {
    Part {
        target: target.to_owned(),
        orders: orders(hedges),
        limits: Limits {
            deadline: Some(Duration::from_secs(1)),
            max_attempts: 2,
            max_concurrent: 100,
        },
        place,
    }
}

fn grpc(hedges: bool) -> Form {
    let method = GrpcMethod {
        service: "search.Shard".to_owned(),
        method: None,
    };
    Form::GrpcServiceConfig(vec![part("shard-read", hedges, method)])
}

fn properties(hedges: bool) -> Form {
    let prefix = PropertiesPrefix { prefix: None };
    Form::Properties(vec![part("shard-read", hedges, prefix)])
}

fn loki(hedges: bool) -> Form {
    let client = LokiClient { max_per_second: None };
    Form::Loki(vec![part("shard-read", hedges, client)])
}

/// A document that hedges and has no base.
fn without_base(form: fn(bool) -> Form) -> DesiredForm {
    DesiredForm {
        form: form(true),
        off: form(false),
        base: None,
        ..over_base(true)
    }
}

/// A document over a base.
fn over_base(hedges: bool) -> DesiredForm {
    DesiredForm {
        form: grpc(hedges),
        off: grpc(false),
        hedged: hedges.then(|| "shard-read".to_owned()).into_iter().collect(),
        base: Some(BaseRef {
            config_map: NamespacedName::new("helpdesk", "kb-base"),
            key: KEY.to_owned(),
        }),
        may_join: false,
    }
}

fn desired(form: DesiredForm) -> DesiredConfigMap {
    DesiredConfigMap {
        name: NamespacedName::new("helpdesk", "kb-grpc"),
        owner: Owner {
            policy: NamespacedName::new("helpdesk", "kb"),
            uid: "u".to_owned(),
        },
        end_of_life: EndOfLife::Left,
        documents: BTreeMap::new(),
        forms: BTreeMap::from([(KEY.to_owned(), form)]),
        memory: BTreeMap::new(),
        renew: false,
    }
}

fn given(text: &str) -> BaseTexts {
    BTreeMap::from([(KEY.to_owned(), Ok(text.into()))])
}

fn gone() -> BaseTexts {
    let error = BaseError {
        reason: ConditionReason::BaseMissing,
        message: "base helpdesk/kb-base, key sc.json: does not exist".to_owned(),
    };
    BTreeMap::from([(KEY.to_owned(), Err(error))])
}

/// A ConfigMap that this operator wrote, of which a person has taken `edited`.
fn live(documents: &[(&str, &str)], edited: &[&str], hedges: bool) -> Live {
    live_told(documents, edited, &orders(hedges))
}

/// The same, whose target was told these orders.
fn live_told(documents: &[(&str, &str)], edited: &[&str], orders: &Orders) -> Live {
    let data: BTreeMap<&str, &str> = documents.iter().copied().collect();
    let own = data.keys().filter(|key| !edited.contains(*key));
    let fields: serde_json::Map<_, _> = own.map(|key| (format!("f:{key}"), json!({}))).collect();
    let memory = json!({ "shard-read": { "orders": orders, "revision": 7 } });
    let config_map = json!({
        "metadata": {
            "name": "kb-grpc", "namespace": "helpdesk",
            "annotations": { MEMORY_ANNOTATION: memory.to_string() },
            "managedFields": [{
                "manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": { "f:data": fields },
            }],
        },
        "data": data,
    });
    Live::read(serde_json::from_value::<ConfigMap>(config_map).unwrap())
}

fn hedges(text: &str) -> bool {
    text.contains("hedgingPolicy")
}

fn rendered(form: DesiredForm, bases: &BaseTexts, live: Option<&Live>) -> Rendered {
    render(&desired(form), bases, live, None)
}

fn reason(rendered: &Rendered) -> (ConditionReason, Instead) {
    let fault = &rendered.faults[KEY];
    (fault.reason, fault.instead)
}

#[test]
fn a_document_stands_beside_its_base_and_off_is_the_base_unchanged() {
    let on = rendered(over_base(true), &given(BASE), None);
    assert!(hedges(&on.documents[KEY]));
    assert_eq!(on.documents[OFF_KEY], BASE);
    let off = rendered(over_base(false), &given(BASE), None);
    assert_eq!(
        (off.documents[KEY].as_str(), off.documents[OFF_KEY].as_str()),
        (BASE, BASE)
    );
    assert!(on.faults.is_empty() && off.faults.is_empty());
}

#[test]
fn without_a_base_the_off_form_is_kept_all_the_same() {
    let form = DesiredForm {
        base: None,
        ..over_base(true)
    };
    let on = rendered(form, &BaseTexts::new(), None);
    assert!(hedges(&on.documents[KEY]) && !hedges(&on.documents[OFF_KEY]));
}

#[test]
fn a_base_that_is_gone_leaves_the_one_before() {
    let before = rendered(over_base(true), &given(BASE), None).documents;
    let live = live(&[(KEY, &before[KEY]), (OFF_KEY, BASE)], &[], true);
    let on = rendered(over_base(true), &gone(), Some(&live));
    assert_eq!(on.documents, before);
    assert_eq!(reason(&on), (ConditionReason::BaseMissing, Instead::OldBase));

    let off = rendered(over_base(false), &gone(), Some(&live));
    assert_eq!(
        (off.documents[KEY].as_str(), off.documents[OFF_KEY].as_str()),
        (BASE, BASE)
    );
}

#[test]
fn a_base_that_cannot_be_used_leaves_the_one_before_and_says_where() {
    let before = rendered(over_base(true), &given(BASE), None).documents;
    let live = live(&[(KEY, &before[KEY]), (OFF_KEY, BASE)], &[], true);
    let on = rendered(over_base(true), &given("{"), Some(&live));
    assert_eq!(on.documents, before);
    assert_eq!(reason(&on), (ConditionReason::BaseInvalid, Instead::OldBase));
    let message = &on.faults[KEY].message;
    assert!(
        message.starts_with("base helpdesk/kb-base, key sc.json: "),
        "{message}"
    );
}

#[test]
fn a_new_base_is_taken_on() {
    let live = live(&[(KEY, BASE), (OFF_KEY, BASE)], &[], false);
    let on = rendered(over_base(true), &given(NEW_BASE), Some(&live));
    assert!(hedges(&on.documents[KEY]) && on.documents[KEY].contains("2s"));
    assert_eq!(on.documents[OFF_KEY], NEW_BASE);
}

#[test]
fn without_any_base_nothing_is_published() {
    let nothing = rendered(over_base(true), &gone(), None);
    assert!(nothing.documents.is_empty());
    assert_eq!(reason(&nothing), (ConditionReason::BaseMissing, Instead::Nothing));
}

#[test]
fn orders_that_cannot_be_said_turn_it_off() {
    let mut form = over_base(true);
    let Form::GrpcServiceConfig(parts) = &mut form.form else {
        panic!("another form")
    };
    // gRPC knows 2 to 5 attempts, and no delay that is not a number.
    parts[0].orders.hedging.as_mut().unwrap().delay_ms = f64::NAN;
    let off = rendered(form, &given(BASE), None);
    assert_eq!(off.documents[KEY], BASE);
    assert_eq!(reason(&off), (ConditionReason::OrdersRefused, Instead::Off));
}

#[test]
fn what_a_person_wrote_over_a_kept_base_is_not_taken_for_it() {
    let known = live(&[(KEY, BASE), (OFF_KEY, BASE)], &[], false);
    let edited = live(&[(KEY, BASE), (OFF_KEY, NEW_BASE)], &[OFF_KEY], false);
    let desired = desired(over_base(false));
    let put_back = render(&desired, &gone(), Some(&edited), Some(&known));
    assert_eq!(put_back.documents[OFF_KEY], BASE);
    // Of which nothing else is known: better than nothing.
    let unknown = render(&desired, &gone(), Some(&edited), None);
    assert_eq!(unknown.documents[OFF_KEY], NEW_BASE);
}

#[test]
fn a_document_that_was_off_while_its_targets_hedge_waits_for_their_ramps() {
    let text = properties(false).render(None).unwrap();
    let off = live(&[(KEY, &text), (OFF_KEY, &text)], &[], true);
    let held = rendered(without_base(properties), &BaseTexts::new(), Some(&off));
    assert_eq!(held.documents[KEY], text);
    assert_eq!(held.joining, BTreeSet::from([KEY.to_owned()]));
    let joins = DesiredForm {
        may_join: true,
        ..without_base(properties)
    };
    let joined = rendered(joins, &BaseTexts::new(), Some(&off));
    assert_ne!(joined.documents[KEY], text);
    assert!(joined.joining.is_empty());
}

/// A document that comes late: its clients hedge by nothing of ours yet.
#[test]
fn a_document_that_comes_late_waits_for_the_ramps_too() {
    let created = Live::read(ConfigMap::default());
    let held = rendered(without_base(properties), &BaseTexts::new(), Some(&created));
    assert_eq!(held.documents[KEY], held.documents[OFF_KEY]);
    assert_eq!(held.joining.len(), 1);
}

#[test]
fn what_hedges_or_returns_by_its_ramp_does_not_wait() {
    let on = rendered(over_base(true), &given(BASE), None).documents;
    let hedging = live(&[(KEY, &on[KEY]), (OFF_KEY, BASE)], &[], true);
    let returning = live(&[(KEY, BASE), (OFF_KEY, BASE)], &[], false);
    for live in [hedging, returning] {
        let rendered = rendered(over_base(true), &given(BASE), Some(&live));
        assert_eq!(rendered.documents, on);
        assert!(rendered.joining.is_empty());
    }
}

#[test]
fn a_document_that_a_person_took_away_is_put_back_as_it_was() {
    let on = rendered(over_base(true), &given(BASE), None).documents;
    let before = live(&[(KEY, &on[KEY]), (OFF_KEY, BASE)], &[], true);
    let edited = live(&[(OFF_KEY, BASE)], &[], true);
    let rendered = render(
        &desired(over_base(true)),
        &given(BASE),
        Some(&edited),
        Some(&before),
    );
    assert_eq!(rendered.documents, on);
    assert!(rendered.joining.is_empty());
}

/// Off while the budget ramps up: were it held off then, the ramp would begin anew for ever.
#[test]
fn what_cannot_be_told_a_part_of_a_budget_comes_on_with_the_end_of_the_ramp() {
    let last_step = Orders {
        reason: Reason::Ramping,
        ..orders(true)
    };
    let off = loki(false).render(None).unwrap();
    let as_off = live_told(&[(KEY, &off), (OFF_KEY, &off)], &[], &last_step);
    let on = rendered(without_base(loki), &BaseTexts::new(), Some(&as_off));
    assert_ne!(on.documents[KEY], off);
    assert!(on.joining.is_empty());

    let as_base = live_told(&[(KEY, BASE), (OFF_KEY, BASE)], &[], &last_step);
    let on = rendered(over_base(true), &given(BASE), Some(&as_base));
    assert!(hedges(&on.documents[KEY]) && on.joining.is_empty());
}

/// A base that was refused, or orders that could not be said: its clients come back as after every off.
#[test]
fn what_cannot_be_told_a_part_of_a_budget_waits_for_a_ramp_when_it_was_off_for_another_reason() {
    let as_base = live(&[(KEY, BASE), (OFF_KEY, BASE)], &[], true);
    let created = Live::read(ConfigMap::default());
    for live in [as_base, created] {
        let held = rendered(over_base(true), &given(BASE), Some(&live));
        assert_eq!(held.documents[KEY], BASE);
        assert_eq!(held.joining.len(), 1);
    }
}

#[test]
fn properties_need_no_base() {
    let on = rendered(without_base(properties), &BaseTexts::new(), None);
    assert!(on.documents[KEY].contains("enabled=true"));
    assert!(on.documents[OFF_KEY].contains("enabled=false"));
}

const NATIVE: &str = "shard-read.json";

/// A native document that lets its clients hedge.
fn native(hedges: bool) -> String {
    let identity = Identity {
        policy: "helpdesk/kb".to_owned(),
        policy_uid: "u".to_owned(),
        target: "shard-read".to_owned(),
    };
    let limits = part("shard-read", hedges, ()).limits;
    NativeDocument::new(
        &identity,
        &orders(hedges),
        &limits,
        7,
        Validity::new(Timestamp::default(), None),
    )
    .to_json()
}

/// A ConfigMap with a native document of a target whose ramp has come so far.
fn desired_native(phase: &serde_json::Value) -> DesiredConfigMap {
    let memory = json!({ "orders": orders(true), "revision": 7, "phase": phase });
    DesiredConfigMap {
        forms: BTreeMap::new(),
        documents: BTreeMap::from([(NATIVE.to_owned(), native(true))]),
        memory: BTreeMap::from([("shard-read".to_owned(), serde_json::from_value(memory).unwrap())]),
        ..desired(over_base(true))
    }
}

fn held_native(phase: &serde_json::Value, live: &Live, before: Option<&Live>) -> Option<NativeDocument> {
    let rendered = render(&desired_native(phase), &BaseTexts::new(), Some(live), before);
    let held = rendered.held_off.get(NATIVE);
    assert_eq!(held.is_some(), rendered.joining.contains(NATIVE));
    held.map(|text| NativeDocument::parse(text.as_bytes()).unwrap())
}

/// Another ConfigMap of that name stood in its way while the ramp went on, or it was off for want of room: else its clients
/// would be told of the whole budget once, before the ramp begins anew.
#[test]
fn a_native_document_that_comes_late_or_was_off_meanwhile_is_held_off() {
    let full = json!({ "Full": { "since": 0 } });
    let created = Live::read(ConfigMap::default());
    let was_off = live(&[(NATIVE, &native(false))], &[], true);
    for live in [created, was_off] {
        let held = held_native(&full, &live, None).unwrap();
        assert_eq!((held.hedging, held.reason.as_str()), (None, "WarmingUp"));
        assert_eq!(held.identity.target, "shard-read");
    }
}

#[test]
fn a_native_document_comes_on_by_the_ramp_and_stays_on() {
    let (first, full) = (
        json!({ "Ramping": { "step": 0, "since": 0 } }),
        json!({ "Full": { "since": 0 } }),
    );
    let created = Live::read(ConfigMap::default());
    assert_eq!(held_native(&first, &created, None), None, "the ramp began anew");
    let stands = live(&[(NATIVE, &native(true))], &[], true);
    assert_eq!(held_native(&full, &stands, None), None);
    let taken_away = live(&[], &[], true);
    assert_eq!(
        held_native(&full, &taken_away, Some(&stands)),
        None,
        "put back as it was"
    );
    let off = live(&[(NATIVE, &native(false))], &[], false);
    assert_eq!(
        held_native(&full, &off, None),
        None,
        "all were off, and come by their ramp"
    );
}
