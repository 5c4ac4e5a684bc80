//! Documents in the formats of other systems, over the documents that people give for it. Pure.
//!
//! Beside each document, under its key with [`OFF_FORM_SUFFIX`], stands its *off form*: the same document with hedging off;
//! where there is a base, that is the base which was accepted last. So an owned ConfigMap can be switched off by what is in
//! it alone, whatever became of the policy or the base.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hedgerow_api::ConditionReason;
use hedgerow_api::names::OFF_FORM_SUFFIX;
use hedgerow_config::{Form, RenderError};

use super::super::bases::{BaseError, BaseRef};
use super::desired::DesiredConfigMap;
use super::joining::{form_joins, native_joining};
use super::live::Live;

/// A document that is to be rendered.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredForm {
    /// What was decided.
    pub form: Form,
    /// The same with every target off.
    pub off: Form,
    /// The targets that hedge by it.
    pub hedged: BTreeSet<String>,
    /// The person's own document that it is written over.
    pub base: Option<BaseRef>,
    /// Its clients were held off until the targets' ramps begin anew, and now they do: see [`Published::joining`](super::Published::joining).
    pub may_join: bool,
}

/// A document that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub reason: ConditionReason,
    /// What is wrong and what to do.
    pub message: String,
    /// What is published instead.
    pub instead: Instead,
}

impl Fault {
    /// Every reason that a fault can have.
    pub const REASONS: [ConditionReason; 5] = [
        ConditionReason::BaseMissing,
        ConditionReason::BaseNotLabelled,
        ConditionReason::BaseInvalid,
        ConditionReason::BaseUnavailable,
        ConditionReason::OrdersRefused,
    ];

    /// Whether it is likely to go by itself.
    pub fn is_transient(&self) -> bool {
        self.reason == ConditionReason::BaseUnavailable
    }
}

/// What is published in place of a document that cannot be rendered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Nothing: there never was a base.
    Nothing,
    /// What was decided, over the base that was accepted last.
    OldBase,
    /// The document with hedging off.
    Off,
}

/// The documents of a ConfigMap, rendered.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rendered {
    /// Each document, and its off form.
    pub(super) documents: BTreeMap<String, String>,
    /// What is not as it should be, by key.
    pub(super) faults: BTreeMap<String, Fault>,
    /// The native documents that are held off, in place of those that are desired.
    pub(super) held_off: BTreeMap<String, String>,
    /// The keys whose document is off though its targets hedge, because it was so before, or was not there. For its clients
    /// hedging comes on, and every return goes through the ramp.
    pub(super) joining: BTreeSet<String>,
}

/// The content of each base, by the key of the document.
pub(super) type BaseTexts = BTreeMap<String, Result<Arc<str>, BaseError>>;

/// The key of a document's off form.
pub(super) fn off_form_key(key: &str) -> String {
    format!("{key}{OFF_FORM_SUFFIX}")
}

/// Renders the documents of `desired`. `live` is the ConfigMap as it is, `before` as this process left it.
pub(super) fn render(
    desired: &DesiredConfigMap,
    bases: &BaseTexts,
    live: Option<&Live>,
    before: Option<&Live>,
) -> Rendered {
    let mut rendered = Rendered {
        held_off: native_joining(desired, live, before),
        ..Rendered::default()
    };
    rendered.joining.extend(rendered.held_off.keys().cloned());
    for (key, wanted) in &desired.forms {
        let off_key = off_form_key(key);
        let kept = kept_off_form(&off_key, live, before);
        let (mut outcome, fault) = wanted.rendered(bases.get(key), kept);
        if let Some(Pair { text, off }) = &mut outcome
            && !wanted.may_join
            && form_joins(key, wanted, live, before)
            && text != off
        {
            text.clone_from(off);
            rendered.joining.insert(key.clone());
        }
        if let Some(Pair { text, off }) = outcome {
            rendered.documents.insert(key.clone(), text);
            rendered.documents.insert(off_key, off);
        }
        if let Some(fault) = fault {
            rendered.faults.insert(key.clone(), fault);
        }
    }
    rendered
}

/// The off form that was published last: what this operator wrote, if a person has not taken it; then what this process
/// knows of; then what is there.
fn kept_off_form<'a>(off_key: &str, live: Option<&'a Live>, before: Option<&'a Live>) -> Option<&'a str> {
    let own = |live: &'a Live| live.own_keys.contains(off_key).then_some(live);
    let text = |live: &'a Live| live.documents.get(off_key);
    let kept = live.and_then(own).and_then(text);
    kept.or_else(|| before.and_then(text))
        .or_else(|| live.and_then(text))
        .map(String::as_str)
}

/// A document and its off form.
struct Pair {
    text: String,
    off: String,
}

impl DesiredForm {
    /// The document as it would be published for the first time, and what is wrong with it.
    pub(crate) fn first(
        &self,
        base: Option<&Result<Arc<str>, BaseError>>,
    ) -> (Option<String>, Option<Fault>) {
        let (pair, fault) = self.rendered(base, None);
        (pair.map(|pair| pair.text), fault)
    }

    /// The document and what is wrong with it; `kept` is the off form that was published last.
    fn rendered(
        &self,
        base: Option<&Result<Arc<str>, BaseError>>,
        kept: Option<&str>,
    ) -> (Option<Pair>, Option<Fault>) {
        let why = match base {
            None => match self.over(None) {
                Ok(done) => return done,
                Err(why) => (ConditionReason::OrdersRefused, why.to_string()),
            },
            Some(Ok(text)) => match self.over(Some(text)) {
                Ok(done) => return done,
                Err(why) => (ConditionReason::BaseInvalid, self.in_base(&why)),
            },
            Some(Err(why)) => (why.reason, why.message.clone()),
        };
        let (pair, instead) = self.over_kept(kept);
        let (reason, what) = why;
        let consequence = match instead {
            Instead::Nothing => "nothing is published under this key",
            Instead::OldBase => "the base before it is used",
            Instead::Off => "hedging is off there",
        };
        let fault = Fault {
            reason,
            message: format!("{what}; {consequence}"),
            instead,
        };
        (pair, Some(fault))
    }

    /// Over `base`, which is found good or refused.
    fn over(&self, base: Option<&str>) -> Result<(Option<Pair>, Option<Fault>), RenderError> {
        // The off form is the base as it is; rendering it finds out whether the base is one.
        let off = self.off.render(base)?;
        let off = base.map_or(off, str::to_owned);
        if self.hedged.is_empty() && base.is_some() {
            let text = off.clone();
            return Ok((Some(Pair { text, off }), None));
        }
        match self.form.render(base) {
            Ok(text) => Ok((Some(Pair { text, off }), None)),
            Err(why @ RenderError::Orders { .. }) => {
                let fault = Fault {
                    reason: ConditionReason::OrdersRefused,
                    message: format!("{why}; hedging is off there"),
                    instead: Instead::Off,
                };
                let text = off.clone();
                Ok((Some(Pair { text, off }), Some(fault)))
            }
            Err(why @ RenderError::Base { .. }) => Err(why),
        }
    }

    /// Over the off form that was published last, which was good once.
    fn over_kept(&self, kept: Option<&str>) -> (Option<Pair>, Instead) {
        let Some(kept) = kept else {
            return (None, Instead::Nothing);
        };
        let off = kept.to_owned();
        let over = self.base.as_ref().map(|_| self.form.render(Some(kept)));
        match over {
            Some(Ok(text)) if !self.hedged.is_empty() => (Some(Pair { text, off }), Instead::OldBase),
            Some(Ok(_)) => {
                let text = off.clone();
                (Some(Pair { text, off }), Instead::OldBase)
            }
            Some(Err(_)) | None => {
                let text = off.clone();
                (Some(Pair { text, off }), Instead::Off)
            }
        }
    }

    fn in_base(&self, why: &RenderError) -> String {
        match &self.base {
            Some(base) => format!("base {base}: {why}"),
            None => why.to_string(),
        }
    }
}

#[cfg(test)]
mod tests;
