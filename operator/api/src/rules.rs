//! The rules between fields: for each its CEL for the schema and its message. The checks at run time (`validate`) use the
//! same messages, and the tests hold both against one list of cases.

use kube::core::Rule;

use crate::text::{Decimal, DurationText, Text, cel_string};

/// A rule between the fields of one object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CrossRule {
    /// The rule in CEL; `self` is the object.
    cel: &'static str,
    /// What the rule reads as numbers. It says nothing while one of them is unreadable: the text's own rule does.
    operands: Operands,
    /// What must be so, and where it helps, what to do.
    pub(crate) message: &'static str,
    /// The field of the object that the message is about, with its point; empty for the object itself.
    pub(crate) field: &'static str,
}

/// Texts that a rule reads as numbers.
#[derive(Clone, Copy, Debug)]
enum Operands {
    None,
    Durations(&'static [&'static str]),
    Decimals(&'static [&'static str]),
}

impl From<CrossRule> for Rule {
    fn from(rule: CrossRule) -> Self {
        let cel = Self::new(format!("{}{}", rule.operands.unreadable(), rule.cel)).message(rule.message);
        if rule.field.is_empty() {
            cel
        } else {
            cel.field_path(rule.field)
        }
    }
}

impl Operands {
    /// The beginning of a rule that holds while an operand is unreadable. An operand that is not there is an error here, which
    /// CEL forgives in an alternative when another one holds: the rule itself asks `has`.
    fn unreadable(self) -> String {
        let (operands, pattern) = match self {
            Self::None => return String::new(),
            Self::Durations(operands) => (operands, DurationText::PATTERN),
            Self::Decimals(operands) => (operands, Decimal::PATTERN),
        };
        let pattern = cel_string(pattern.unwrap_or_default());
        operands
            .iter()
            .map(|operand| format!("!{operand}.matches({pattern}) || "))
            .collect()
    }
}

const fn rule(field: &'static str, cel: &'static str, message: &'static str) -> CrossRule {
    CrossRule {
        cel,
        operands: Operands::None,
        message,
        field,
    }
}

impl CrossRule {
    const fn of_durations(self, operands: &'static [&'static str]) -> Self {
        Self {
            operands: Operands::Durations(operands),
            ..self
        }
    }

    const fn of_decimals(self, operands: &'static [&'static str]) -> Self {
        Self {
            operands: Operands::Decimals(operands),
            ..self
        }
    }
}

// The whole spec.

pub(crate) const SATURATION_INTERVAL_WITHIN_INTERVAL: CrossRule = rule(
    ".saturationInterval",
    "duration(self.saturationInterval) <= duration(self.interval)",
    "must not be above interval",
)
.of_durations(&["self.saturationInterval", "self.interval"]);
pub(crate) const PUBLISHED_TARGETS_EXIST: CrossRule = rule(
    ".publish",
    "self.publish.all(p, p.targets.all(t, self.targets.exists(x, x.name == t.name)))",
    "names a target that is not in targets: add the target, or mend the name",
);
pub(crate) const TARGETS_ARE_PUBLISHED: CrossRule = rule(
    ".targets",
    "self.targets.all(x, self.publish.exists(p, p.targets.exists(t, t.name == x.name)))",
    "every target must be published: add it to publish, or leave the target out",
);

// A target.

pub(crate) const IDEMPOTENT: CrossRule = rule(
    "",
    "self",
    "must be true: only calls that are safe to run twice may be hedged",
);
pub(crate) const MAX_WITHIN_DEADLINE: CrossRule = rule(
    ".delay.max",
    "!has(self.deadline) || !has(self.delay.max) || duration(self.delay.max) <= duration(self.deadline)",
    "must not be above deadline",
)
.of_durations(&["self.delay.max", "self.deadline"]);
pub(crate) const MIN_UNDER_DEADLINE: CrossRule = rule(
    ".delay.min",
    "!has(self.deadline) || duration(self.delay.min) < duration(self.deadline)",
    "must be under deadline",
)
.of_durations(&["self.delay.min", "self.deadline"]);
pub(crate) const LONG_MIN_NEEDS_MAX: CrossRule = rule(
    ".delay.min",
    "has(self.deadline) || has(self.delay.max) || duration(self.delay.min) < duration('10s')",
    "must be under 10s without a deadline: set deadline or delay.max",
)
.of_durations(&["self.delay.min"]);
pub(crate) const MIN_WITHIN_MAX: CrossRule = rule(
    ".min",
    "!has(self.max) || duration(self.min) <= duration(self.max)",
    "must not be above max",
)
.of_durations(&["self.min", "self.max"]);

// A latency metric.

pub(crate) const UNIT_KNOWN: CrossRule = rule(
    ".unit",
    "has(self.unit) || self.metric.matches('_(seconds|milliseconds|microseconds|ms|us|usec)$')",
    "must be set: the name of the metric does not end in its unit",
);
pub(crate) const WINDOW_WITHIN_MAX_WINDOW: CrossRule = rule(
    ".maxWindow",
    "duration(self.window) <= duration(self.maxWindow)",
    "must not be under window (unset it is 1h): set maxWindow too",
)
.of_durations(&["self.window", "self.maxWindow"]);

// A selector.

pub(crate) const LABEL_NAMES: CrossRule = rule(
    "",
    "self.all(k, k.matches('^[a-zA-Z_][a-zA-Z0-9_]*$') && k != '__name__')",
    "label names are letters, digits and _, not starting with a digit, and not __name__",
);
pub(crate) const KEY_IS_NO_METRIC: CrossRule = rule(
    ".key",
    "self.key != '__name__'",
    "must not be __name__: the metric is named by its own field",
);
pub(crate) const VALUES_FIT_OPERATOR: CrossRule = rule(
    ".values",
    "self.operator == 'Exists' ? !has(self.values) || size(self.values) == 0 : has(self.values) && size(self.values) > 0",
    "In and NotIn need values, Exists takes none",
);

// A saturation signal.

pub(crate) const ONE_KIND: CrossRule = rule(
    "",
    "[has(self.metric), has(self.rateOf), has(self.alert)].exists_one(x, x)",
    "set exactly one of metric, rateOf and alert",
);
pub(crate) const LINE_UNLESS_ALERT: CrossRule = rule(
    ".offAbove",
    "has(self.alert) != has(self.offAbove)",
    "is needed with metric and rateOf; an alert takes none",
);
pub(crate) const ON_BELOW_UNDER_OFF_ABOVE: CrossRule = rule(
    ".onBelow",
    "!has(self.onBelow) || !has(self.offAbove) || double(self.onBelow) < double(self.offAbove)",
    "must be under offAbove",
)
.of_decimals(&["self.onBelow", "self.offAbove"]);
pub(crate) const RATE_FIELDS: CrossRule = rule(
    "",
    "has(self.rateOf) || (!has(self.window) && !has(self.per))",
    "window and per go with rateOf only",
);
pub(crate) const ALERT_ALONE: CrossRule = rule(
    "",
    "!has(self.alert) || !(has(self.atLeast) || has(self.onBelow) || has(self.matchLabels) || has(self.matchExpressions))",
    "an alert takes no matchLabels, matchExpressions, atLeast or onBelow",
);

// An output.

pub(crate) const KEY_RESERVED: CrossRule = rule(
    ".key",
    "self.key != '.' && self.key != '..' && !self.key.endsWith('.base')",
    "must not be . or .. and not end in .base",
);
pub(crate) const NOT_THE_STOP: CrossRule = rule(
    ".configMap",
    "self.configMap != 'hedgerow-off'",
    "hedgerow-off is the emergency stop: choose another name",
);
pub(crate) const ONE_TARGET: CrossRule = rule(
    ".targets",
    "self.format != 'Hedgerow' || size(self.targets) == 1",
    "a Hedgerow document holds exactly one target: publish each target under a key of its own",
);
