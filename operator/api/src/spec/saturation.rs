//! The off-switch of a target.

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{Counter, Labels, Requirement, ZeroWhenAbsent};
use crate::text::{AlertName, Decimal, DurationText, MetricName, Name, PresetName};
use crate::{limits, preset, rules};

/// When hedging goes off because the service is overloaded, and how it comes back.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Saturation {
    /// The signals of overload, at most 8. Any one above its line turns hedging off; all must be under theirs before it comes
    /// back. Without a signal nothing turns hedging off under load, and the policy says so (reason NoOffSwitch).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_SIGNALS))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub signals: Vec<Signal>,

    /// How long a signal may be unknown before hedging goes off, from 10s to 10m. At least three scrapes are always granted.
    /// Default: 90s.
    #[serde(default = "default_max_unknown")]
    #[x_kube(validation = limits::MAX_UNKNOWN)]
    pub max_unknown: DurationText,

    /// How long hedging stays off after the last bad value, from 1s to 30m. Doubled, up to 30m, when the switch opens again
    /// soon after. Default: 2m.
    #[serde(default = "default_cooldown")]
    #[x_kube(validation = limits::COOLDOWN)]
    pub cooldown: DurationText,

    /// Hedging comes back at 25, then 50, then 100 % of its budget: the length of each step, from 1s to 30m. Keep it above
    /// the time that a changed ConfigMap takes to reach the clients, about 90s for a mounted one. Default: 2m.
    #[serde(default = "default_ramp_step")]
    #[x_kube(validation = limits::RAMP_STEP)]
    pub ramp_step: DurationText,
}

/// One signal of overload: a gauge (metric), the rate of a counter (rateOf), an alert, or a preset.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = rules::ONE_KIND,
    validation = rules::LINE_UNLESS_ALERT,
    validation = rules::ON_BELOW_UNDER_OFF_ABOVE,
    validation = rules::PRESET_LINES_TOGETHER,
    validation = rules::PRESET_SIGNAL_LABELS_FREE,
    validation = rules::RATE_FIELDS,
    validation = rules::ALERT_ALONE
)]
#[serde(rename_all = "camelCase")]
pub struct Signal {
    /// The name of the signal in status and messages, unique in the target. Example: queue.
    pub name: Name,

    /// A signal that Hedgerow knows: it fixes the metric, its labels and a line. docs/presets.md tells what each is. Example:
    /// CpuThrottling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = preset::signal_names()))]
    pub preset: Option<PresetName>,

    /// A gauge to compare with offAbove. Example: shard_queue_depth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<MetricName>,

    /// A counter whose rate per second is compared with offAbove; with per, the share. Example: shard_rejected_total.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_of: Option<MetricName>,

    /// The name of an alerting rule of the source: hedging is off while it fires. Example: KbIndexDown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alert: Option<AlertName>,

    /// Labels that the series must have, with these very values: at most 16. Not with an alert.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub match_labels: Labels,

    /// Further requirements on labels, at most 8; all must hold. Not with an alert.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::MAX_EXPRESSIONS))]
    #[x_kube(merge_strategy = ListMerge::Atomic)]
    pub match_expressions: Vec<Requirement>,

    /// Over which window the rate is taken, from 30s to 1h; at least four scrapes. With rateOf only. Unset: 2m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = limits::SIGNAL_WINDOW)]
    pub window: Option<DurationText>,

    /// A counter to divide by, sum by sum, so that the line keeps its meaning when traffic grows: rejections per call, say.
    /// With rateOf only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<Counter>,

    /// Hedging goes off above this value, which is above 0, as a string. Needed with metric and rateOf; unset with a preset:
    /// the preset's. Example: "50".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = limits::OFF_ABOVE)]
    pub off_above: Option<Decimal>,

    /// Hedging may come back under this value, which is above 0 and under offAbove, as a string. Unset: 0.7 times offAbove.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = limits::ON_BELOW)]
    pub on_below: Option<Decimal>,

    /// How many series must be above the line, from 1 to 1000, so that one noisy replica does not switch a fleet off. Unset:
    /// 2, or 10 % of the series if that is more; 1 when there is one series.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::AT_LEAST.min, max = limits::AT_LEAST.max))]
    pub at_least: Option<i32>,

    /// Makes a series that does not exist yet count as 0, as long as a witness proves that its target is scraped. Unset: an
    /// absent series is unknown, and hedging goes off after maxUnknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zero_when_absent: Option<ZeroWhenAbsent>,
}

impl Default for Saturation {
    fn default() -> Self {
        Self {
            signals: Vec::new(),
            max_unknown: default_max_unknown(),
            cooldown: default_cooldown(),
            ramp_step: default_ramp_step(),
        }
    }
}

fn default_max_unknown() -> DurationText {
    "90s".into()
}

fn default_cooldown() -> DurationText {
    "2m".into()
}

fn default_ramp_step() -> DurationText {
    "2m".into()
}
