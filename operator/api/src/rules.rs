//! The rules between fields: for each its CEL for the schema and its message. The checks at run time (`validate`) use the
//! same messages, and the tests hold both against one list of cases. Presets are named here as the schema needs them; a test
//! compares the lists with the presets themselves.

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

pub(crate) const NATIVE_OR_OTHERS: CrossRule = rule(
    ".publish",
    "self.publish.all(p, self.publish.all(o, o.configMap != p.configMap || \
     (o.format == 'Hedgerow') == (p.format == 'Hedgerow')))",
    "a ConfigMap holds Hedgerow documents or other formats, not both: use two ConfigMaps",
);
pub(crate) const BASE_IS_NO_OUTPUT: CrossRule = rule(
    ".publish",
    "self.publish.all(p, !has(p.base) || !self.publish.exists(o, o.configMap == p.base.configMap))",
    "a base must be a ConfigMap that nothing is published to",
);
pub(crate) const MANUAL_OFF_ACCEPTED: CrossRule = rule(
    ".publish",
    "self.publish.all(p, !(p.format in ['DataStax', 'Cassandra', 'Hdfs', 'Loki', 'Tempo']) || has(p.manualOff) || \
     p.targets.all(t, self.targets.all(x, x.name != t.name || !has(x.saturation.signals) || \
     size(x.saturation.signals) == 0)))",
    "clients of DataStax, Cassandra, Hdfs, Loki and Tempo are not switched off without a restart or a person: say \
     manualOff: Accepted, or leave the saturation signals out",
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

pub(crate) const NETWORK_SEEN: CrossRule = rule(
    ".delay.add",
    "(has(self.latency.measures) ? self.latency.measures != 'Server' : \
     !has(self.latency.preset) || !(self.latency.preset in ['IngressNginx', 'SpringServer'])) || has(self.hedging) || \
     duration(self.delay.add) > duration('0s')",
    "must be above 0s, or hedging be set: latency that is measured at the server leaves out the network",
)
.of_durations(&["self.delay.add"]);
pub(crate) const DISABLE_NEEDS_WINS: CrossRule = rule(
    ".noBenefit",
    "self.noBenefit != 'Disable' || (has(self.hedging) ? has(self.hedging.wins) : \
     has(self.latency.preset) && self.latency.preset == 'HedgerowClient')",
    "Disable needs hedging.wins: without it nobody knows whether hedges win",
);

// A latency metric.

pub(crate) const PRESET_OR_METRIC: CrossRule = rule(
    "",
    "has(self.preset) != has(self.metric)",
    "set exactly one of preset and metric",
);
pub(crate) const METRIC_NEEDS_MEASURES: CrossRule = rule(
    ".measures",
    "!has(self.metric) || has(self.measures)",
    "must be set with metric: LogicalCall, Attempt or Server",
);
pub(crate) const PRESET_FIXES: CrossRule = rule(
    "",
    "!has(self.preset) || !(has(self.measures) || has(self.unit) || has(self.outcomes))",
    "a preset fixes measures, unit and outcomes: leave them out",
);
pub(crate) const PRESET_LABELS_FREE: CrossRule = rule(
    ".preset",
    "!has(self.preset) || [['GrpcClient', 'grpc_status'], ['GrpcAttempt', 'grpc_status'], ['Istio', 'reporter'], \
     ['Istio', 'response_flags'], ['LinkerdOutbound', 'direction'], ['IngressNginx', 'status'], ['SpringClient', 'status'], \
     ['SpringServer', 'status'], ['OtelHttpClient', 'error_type']].all(r, self.preset != r[0] || \
     ((!has(self.matchLabels) || !(r[1] in self.matchLabels)) && \
     (!has(self.matchExpressions) || self.matchExpressions.all(e, e.key != r[1]))))",
    "selects by a label of its own, by which attempts cut short are told apart or series are pinned: leave that label out",
);
pub(crate) const CANCELLED_KNOWN: CrossRule = rule(
    ".outcomes",
    "!has(self.measures) || self.measures != 'Attempt' || self.losersRunOn || \
     (has(self.outcomes) && has(self.outcomes.cancelled) && size(self.outcomes.cancelled) > 0)",
    "Attempt needs outcomes.cancelled; or losersRunOn: true, where losers are not cancelled",
);
pub(crate) const PRESET_HIDES_CANCELLED: CrossRule = rule(
    ".preset",
    "!has(self.preset) || !(self.preset in ['LinkerdOutbound']) || self.losersRunOn",
    "has no trace of cancelled attempts: set losersRunOn: true where losers are not cancelled, else read another metric",
);
pub(crate) const LOSERS_OF_ATTEMPTS: CrossRule = rule(
    ".losersRunOn",
    "!self.losersRunOn || (has(self.measures) && self.measures == 'Attempt') || \
     (has(self.preset) && self.preset in ['GrpcAttempt', 'Istio', 'LinkerdOutbound', 'IngressNginx', 'SpringClient', \
     'OtelHttpClient'])",
    "goes with Attempt only: other metrics have no losers",
);
pub(crate) const OUTCOMES_LABEL_FREE: CrossRule = rule(
    ".outcomes",
    "!has(self.outcomes) || ((!has(self.matchLabels) || !(self.outcomes.label in self.matchLabels)) && \
     (!has(self.matchExpressions) || self.matchExpressions.all(e, e.key != self.outcomes.label)))",
    "the label must not be selected by as well: attempts cut short would be lost",
);
pub(crate) const UNIT_KNOWN: CrossRule = rule(
    ".unit",
    "!has(self.metric) || has(self.unit) || self.metric.matches('_(seconds|milliseconds|microseconds|ms|us|usec)$')",
    "must be set: the name of the metric does not end in its unit",
);
pub(crate) const WINDOW_WITHIN_MAX_WINDOW: CrossRule = rule(
    ".maxWindow",
    "duration(self.window) <= duration(self.maxWindow)",
    "must not be under window (unset it is 1h): set maxWindow too",
)
.of_durations(&["self.window", "self.maxWindow"]);

// Outcomes.

pub(crate) const NO_BUCKET_SELECTED: CrossRule = rule(
    "",
    "(!has(self.matchLabels) || !('le' in self.matchLabels)) && \
     (!has(self.matchExpressions) || self.matchExpressions.all(e, e.key != 'le'))",
    "le is the bound of a bucket, and a histogram is read with all its buckets: leave it out",
);
pub(crate) const OUTCOMES_LABEL: CrossRule = rule(
    ".label",
    "self.label != '__name__' && self.label != 'le'",
    "must be a label that tells how an attempt ended, not __name__ or le",
);
pub(crate) const OUTCOMES_SAY_SOMETHING: CrossRule = rule(
    "",
    "(has(self.cancelled) && size(self.cancelled) > 0) || (has(self.ignored) && size(self.ignored) > 0)",
    "name values of the label: cancelled, ignored or both",
);
pub(crate) const OUTCOMES_DISJOINT: CrossRule = rule(
    ".ignored",
    "!has(self.cancelled) || !has(self.ignored) || self.ignored.all(v, !(v in self.cancelled))",
    "must not name a value of cancelled",
);

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
    "[has(self.metric), has(self.rateOf), has(self.alert), has(self.preset)].exists_one(x, x)",
    "set exactly one of metric, rateOf, alert and preset",
);
pub(crate) const LINE_UNLESS_ALERT: CrossRule = rule(
    ".offAbove",
    "has(self.preset) || has(self.alert) != has(self.offAbove)",
    "is needed with metric and rateOf; an alert takes none",
);
pub(crate) const ON_BELOW_UNDER_OFF_ABOVE: CrossRule = rule(
    ".onBelow",
    "!has(self.onBelow) || !has(self.offAbove) || double(self.onBelow) < double(self.offAbove)",
    "must be under offAbove",
)
.of_decimals(&["self.onBelow", "self.offAbove"]);
pub(crate) const PRESET_LINES_TOGETHER: CrossRule = rule(
    ".onBelow",
    "!has(self.preset) || !has(self.onBelow) || has(self.offAbove)",
    "needs offAbove with a preset, whose line may change",
);
pub(crate) const PRESET_SIGNAL_LABELS_FREE: CrossRule = rule(
    ".matchLabels",
    "!has(self.preset) || !(self.preset in ['ElasticsearchQueue', 'ElasticsearchRejected']) || !has(self.matchLabels) || !('type' in self.matchLabels)",
    "must not say a label that the preset pins",
);
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
    "!(self.format in ['Hedgerow', 'Hdfs', 'Loki', 'Tempo']) || size(self.targets) == 1",
    "a document of Hedgerow, Hdfs, Loki or Tempo holds exactly one target: publish each target under a key of its own",
);
pub(crate) const BASE_NEEDED: CrossRule = rule(
    ".base",
    "self.format != 'EnvoyRoute' || has(self.base)",
    "EnvoyRoute needs a base: your own route configuration",
);
pub(crate) const BASE_TAKEN: CrossRule = rule(
    ".base",
    "!has(self.base) || self.format in ['EnvoyRoute', 'GrpcServiceConfig', 'DotnetHedging', 'Kitex']",
    "goes with EnvoyRoute, GrpcServiceConfig, DotnetHedging and Kitex only",
);
pub(crate) const MANUAL_FORMAT: CrossRule = rule(
    ".manualOff",
    "!has(self.manualOff) || self.format in ['DataStax', 'Cassandra', 'Hdfs', 'Loki', 'Tempo']",
    "goes with DataStax, Cassandra, Hdfs, Loki and Tempo only: the others are switched off without a person",
);
pub(crate) const POD_LABEL_KEYS: CrossRule = rule(
    "",
    "self.all(k, size(k) <= 317 && \
     k.matches('^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$'))",
    "must be labels as pods have them, such as app or app.kubernetes.io/name",
);

// The block of a format.

macro_rules! needed_block {
    ($block:literal, $format:literal) => {
        rule(
            ".targets",
            concat!(
                "self.targets.all(t, has(t.",
                $block,
                ") == (self.format == '",
                $format,
                "'))"
            ),
            concat!(
                $block,
                " is needed with the format ",
                $format,
                ", and goes with no other"
            ),
        )
    };
}

macro_rules! optional_block {
    ($block:literal, $format:literal) => {
        rule(
            ".targets",
            concat!(
                "self.format == '",
                $format,
                "' || self.targets.all(t, !has(t.",
                $block,
                "))"
            ),
            concat!($block, " goes with the format ", $format, " only"),
        )
    };
}

pub(crate) const GRPC_SERVICE_CONFIG_BLOCK: CrossRule =
    needed_block!("grpcServiceConfig", "GrpcServiceConfig");
pub(crate) const ENVOY_ROUTE_BLOCK: CrossRule = needed_block!("envoyRoute", "EnvoyRoute");
pub(crate) const DOTNET_HEDGING_BLOCK: CrossRule = needed_block!("dotnetHedging", "DotnetHedging");
pub(crate) const KITEX_BLOCK: CrossRule = needed_block!("kitex", "Kitex");
pub(crate) const CASSANDRA_BLOCK: CrossRule = needed_block!("cassandra", "Cassandra");
pub(crate) const DATA_STAX_BLOCK: CrossRule = optional_block!("dataStax", "DataStax");
pub(crate) const HDFS_BLOCK: CrossRule = optional_block!("hdfs", "Hdfs");
pub(crate) const LOKI_BLOCK: CrossRule = optional_block!("loki", "Loki");
pub(crate) const PROPERTIES_BLOCK: CrossRule = optional_block!("properties", "Properties");
