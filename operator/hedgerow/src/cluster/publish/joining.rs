//! Clients that come to hedging without a part in the ramp that led there: those of a ConfigMap that is written late, or of a
//! document that was off for a reason of its own. They are held off once more, and the ramps of their targets begin anew. Pure.
//!
//! To find out it looks at what stands there, not at what this process remembers: so it holds after a restart as well.

use std::collections::BTreeMap;

use hedgerow_config::NativeDocument;
use hedgerow_tuner::{Memory, Reason};

use super::desired::DesiredConfigMap;
use super::live::Live;
use super::render::{DesiredForm, off_form_key};

/// Whether a document of another system stands there off, or not at all, while its targets are remembered as hedging.
pub(super) fn form_joins(
    key: &str,
    wanted: &DesiredForm,
    live: Option<&Live>,
    before: Option<&Live>,
) -> bool {
    let Some(live) = live else { return false };
    let hedges = |live: &Live| {
        let text = live.documents.get(key);
        text.is_some() && text != live.documents.get(&off_form_key(key))
    };
    // What cannot be told a part of a budget is off while the ramp lasts, and on at its end: no other off is the ramp's.
    let told = |memory: &Memory| {
        if wanted.form.ramps() {
            memory.lets_hedge()
        } else {
            memory.has_whole_budget()
        }
    };
    let is_beyond = |target: &String| told_nothing_or(live, target, told);
    wanted.hedged.iter().any(is_beyond) && !hedges(live) && !before.is_some_and(hedges)
}

/// The native documents that stand there off, or not at all, while clients would be told of a target that is past the first
/// step of its ramp; each as it is to be instead.
pub(super) fn native_joining(
    desired: &DesiredConfigMap,
    live: Option<&Live>,
    before: Option<&Live>,
) -> BTreeMap<String, String> {
    let Some(live) = live else { return BTreeMap::new() };
    let joins = |(key, text): (&String, &String)| {
        let document = NativeDocument::parse(text.as_bytes()).ok()?;
        document.hedging?;
        let hedges = |live: &Live| {
            let stands = live
                .documents
                .get(key)
                .map(|text| NativeDocument::parse(text.as_bytes()));
            stands.is_some_and(|stands| stands.is_ok_and(|stands| stands.hedging.is_some()))
        };
        let target = &document.identity.target;
        let past_first_step = desired.memory.get(target).is_some_and(Memory::is_past_first_step);
        let joins = past_first_step
            && told_nothing_or(live, target, Memory::lets_hedge)
            && !hedges(live)
            && !before.is_some_and(hedges);
        joins.then(|| (key.clone(), held_off(document).to_json()))
    };
    desired.documents.iter().filter_map(joins).collect()
}

/// Whether the ConfigMap remembers nothing of a target, as one that has just been created, or what `told` says.
fn told_nothing_or(live: &Live, target: &str, told: impl Fn(&Memory) -> bool) -> bool {
    live.record.memory.get(target).is_none_or(told)
}

fn held_off(document: NativeDocument) -> NativeDocument {
    NativeDocument {
        hedging: None,
        reason: Reason::WarmingUp.as_str().to_owned(),
        ..document
    }
}
