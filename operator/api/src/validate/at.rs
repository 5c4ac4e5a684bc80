//! Where a check is, and what it may find there.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use super::FieldError;
use crate::limits::{DecimalRange, DurationRange, ExpiryRange, IntegerRange};
use crate::rules::CrossRule;
use crate::text::{Decimal, DurationText, Expiry, Text};

/// A place in a spec; errors found there are kept with its path.
pub(super) struct At<'a> {
    errors: &'a mut Vec<FieldError>,
    path: String,
}

impl<'a> At<'a> {
    /// The spec itself.
    pub(super) fn root(errors: &'a mut Vec<FieldError>) -> Self {
        Self {
            errors,
            path: "spec".to_owned(),
        }
    }

    /// A field of this object.
    pub(super) fn field(&mut self, name: &str) -> At<'_> {
        At {
            path: format!("{}.{name}", self.path),
            errors: self.errors,
        }
    }

    /// An item of this list.
    pub(super) fn index(&mut self, index: usize) -> At<'_> {
        At {
            path: format!("{}[{index}]", self.path),
            errors: self.errors,
        }
    }

    /// Something here is not as it must be.
    pub(super) fn error(&mut self, message: impl Into<String>, value: Option<&(impl Display + ?Sized)>) {
        self.errors.push(FieldError {
            path: self.path.clone(),
            message: message.into(),
            value: value.map(ToString::to_string),
        });
    }

    /// A rule between fields of this object, and whether it holds.
    pub(super) fn rule(&mut self, rule: CrossRule, holds: bool, value: Option<&(impl Display + ?Sized)>) {
        if !holds {
            let path = format!("{}{}", self.path, rule.field);
            At {
                path,
                errors: self.errors,
            }
            .error(rule.message, value);
        }
    }

    /// A text; whether it keeps to its grammar.
    pub(super) fn text<T: Text>(&mut self, text: &T) -> bool {
        let fits = text.is_well_formed();
        if !fits {
            self.error(T::ADVICE, Some(text.as_str()));
        }
        fits
    }

    /// A text that may be left out.
    pub(super) fn optional_text<T: Text>(&mut self, text: Option<&T>) {
        if let Some(text) = text {
            self.text(text);
        }
    }

    /// A duration, if it is one; an error when it is not in `range`.
    pub(super) fn duration(&mut self, text: &DurationText, range: DurationRange) -> Option<Duration> {
        let value = self.text(text).then(|| text.parse().ok()).flatten()?;
        if !range.contains(value) {
            self.error(range.message(), Some(text.as_str()));
        }
        Some(value)
    }

    /// As [`duration`](Self::duration), for a field that may be left out.
    pub(super) fn optional_duration(
        &mut self,
        text: Option<&DurationText>,
        range: DurationRange,
    ) -> Option<Duration> {
        self.duration(text?, range)
    }

    /// A duration or `never`.
    pub(super) fn expiry(&mut self, text: &Expiry, range: ExpiryRange) {
        if self.text(text) && !text.parse().is_ok_and(|value| range.contains(value)) {
            self.error(range.message(), Some(text.as_str()));
        }
    }

    /// A decimal, if it is one; an error when it is not in `range`.
    pub(super) fn decimal(&mut self, text: &Decimal, range: DecimalRange) -> Option<f64> {
        let value = self.text(text).then(|| text.parse().ok()).flatten()?;
        if !range.contains(value) {
            self.error(range.message(), Some(text.as_str()));
        }
        Some(value)
    }

    /// A whole number that may be left out.
    pub(super) fn integer(&mut self, value: Option<i32>, range: IntegerRange) {
        if let Some(value) = value
            && !range.contains(value)
        {
            self.error(range.message(), Some(&value));
        }
    }

    /// How many items there are.
    pub(super) fn length(&mut self, length: usize, at_least: usize, at_most: usize) {
        if length < at_least {
            self.error(format!("must have at least {at_least} items"), Some(&length));
        } else if length > at_most {
            self.error(format!("must have at most {at_most} items"), Some(&length));
        }
    }

    /// Keys of a list, each of which may stand in it once.
    pub(super) fn unique<K: Ord>(&mut self, keys: impl Iterator<Item = K>) {
        let mut seen = BTreeSet::new();
        for (index, key) in keys.enumerate() {
            if !seen.insert(key) {
                self.index(index).error(
                    "Duplicate value: another item of the list has the same key; leave one of the two out, or rename it",
                    None::<&str>,
                );
            }
        }
    }
}
