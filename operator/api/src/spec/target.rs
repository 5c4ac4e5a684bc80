//! One kind of call that is hedged.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Counter, Latency, Saturation};
use crate::text::{Decimal, DurationText, Name};
use crate::{limits, rules};

/// One kind of call that is hedged.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(
    validation = rules::MAX_WITHIN_DEADLINE,
    validation = rules::MIN_UNDER_DEADLINE,
    validation = rules::LONG_MIN_NEEDS_MAX,
    validation = rules::NETWORK_SEEN,
    validation = rules::DISABLE_NEEDS_WINS
)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    /// The name of the target, unique in the policy: lower-case letters, digits and -, at most 63. Example: shard-read.
    pub name: Name,

    /// Must be true. By it you say that a call may run twice without harm: a read, or a write that is safe to repeat. A hedge
    /// is a second copy of a call that is still running.
    #[x_kube(validation = rules::IDEMPOTENT)]
    pub idempotent: bool,

    /// How many such calls one user query waits for, from 1 to 100000. Only reported on: with a deadline, status tells the
    /// share of user queries that miss it. Unset: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::FAN_OUT.min, max = limits::FAN_OUT.max))]
    pub fan_out: Option<i32>,

    /// What one call may take in all, from 1ms to 1h: the client's timeout. No hedge is sent that could not answer within it,
    /// and the delay never exceeds it. Unset: none. Example: 1s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = limits::DEADLINE)]
    pub deadline: Option<DurationText>,

    /// The latency histogram from which the delay is computed.
    pub latency: Latency,

    /// How the hedge delay is placed: how long a client waits for the first attempt before it sends a second one.
    #[serde(default)]
    pub delay: Delay,

    /// How much hedging may cost.
    #[serde(default)]
    pub budget: Budget,

    /// When hedging goes off because the service is overloaded, and how it comes back.
    #[serde(default)]
    pub saturation: Saturation,

    /// Counters that the clients export about their hedges. With them the delay is checked against what clients really do,
    /// and hedging that does not help is diagnosed. Unset: those of the preset HedgerowClient, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hedging: Option<HedgingCounters>,

    /// What is done when hedges do not win. Report: the condition Effective says so. Disable: hedging goes off, and is tried
    /// again now and then; needs hedging.wins. Default: Report.
    #[serde(default)]
    pub no_benefit: NoBenefit,
}

/// What is done when hedges do not win.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum NoBenefit {
    /// The condition Effective says so.
    #[default]
    Report,
    /// Hedging goes off, and is tried again now and then.
    Disable,
}

/// Counters that the clients export about their hedges.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HedgingCounters {
    /// Calls made, each once whatever its attempts. Example: {rateOf: hedgerow_client_calls_total}.
    pub calls: Counter,

    /// Hedges sent. Example: {rateOf: hedgerow_client_hedges_total}.
    pub hedges: Counter,

    /// Hedges whose time had come and that a budget or a limit kept back. Without it the delay is never shortened by what is
    /// counted: a budget that binds looks like a delay that is too long. Example: {rateOf: hedgerow_client_blocked_total}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Counter>,

    /// Hedges that answered first. Needed to see whether hedging helps. Example: {rateOf: hedgerow_client_wins_total}.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wins: Option<Counter>,
}

/// How the hedge delay is placed.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[x_kube(validation = rules::MIN_WITHIN_MAX)]
#[serde(rename_all = "camelCase")]
pub struct Delay {
    /// The percentile of the latency to hedge at, from 50 to 99.99, as a string. At 95 the slowest 5 of 100 calls are hedged.
    /// Default: "95".
    #[serde(default = "default_percentile")]
    #[x_kube(validation = limits::PERCENTILE)]
    pub percentile: Decimal,

    /// The shortest delay, from 1ms to 1h; under the deadline. A shorter one is raised to it. Default: 1ms.
    #[serde(default = "default_delay_min")]
    #[x_kube(validation = limits::DELAY)]
    pub min: DurationText,

    /// The longest delay that makes sense, from 1ms to 1h. When the percentile is above it the service is slow as a whole and
    /// hedging goes off, reason AboveMax: the delay is never cut to it. Unset: the deadline, or 10s without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = limits::DELAY)]
    pub max: Option<DurationText>,

    /// Added to the percentile, from 0ms to 10m: an allowance for what the metric does not see, such as the network between
    /// client and server. Default: 0ms.
    #[serde(default = "default_delay_add")]
    #[x_kube(validation = limits::DELAY_ADD)]
    pub add: DurationText,

    /// What is done when a few per cent of the calls are slow by far, as with one slow replica of many, and the percentile
    /// lies among them: hedging there saves nothing. Follow: the delay is placed under them, within the budget. Ignore: it
    /// stays at the percentile. Default: Follow.
    #[serde(default)]
    pub plateau: Plateau,
}

/// What is done with a slow mode of a few per cent, in which the percentile lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Plateau {
    /// The delay is placed under it.
    #[default]
    Follow,
    /// The delay stays at the percentile.
    Ignore,
}

/// How much hedging may cost.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Hedges per 100 calls of a client at most, above 0, at most 100, as a string. Keep it at about twice the share that the
    /// percentile expects, so that a burst is not blocked: 10 for the 95th percentile. Default: "10".
    #[serde(default = "default_percent")]
    #[x_kube(validation = limits::PERCENT)]
    pub percent: Decimal,

    /// Attempts per call, the first included, from 2 to 5. With 2 a call is hedged once. Default: 2.
    #[serde(default = "default_max_attempts")]
    #[schemars(range(min = limits::MAX_ATTEMPTS.min, max = limits::MAX_ATTEMPTS.max))]
    pub max_attempts: i32,

    /// Caps that hold for each client process by itself.
    #[serde(default)]
    pub per_client: PerClient,
}

/// Caps that hold for each client process by itself.
#[derive(KubeSchema, Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PerClient {
    /// Hedges that one client process may have in flight, from 1 to 100000. Default: 100.
    #[serde(default = "default_max_concurrent")]
    #[schemars(range(min = limits::MAX_CONCURRENT.min, max = limits::MAX_CONCURRENT.max))]
    pub max_concurrent: i32,

    /// Hedges per second that one client process may always send, whatever its share of calls, as a string. Lets a client
    /// with few calls hedge at all. Default: "0".
    #[serde(default = "default_min_per_second")]
    pub min_per_second: Decimal,
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            percentile: default_percentile(),
            min: default_delay_min(),
            max: None,
            add: default_delay_add(),
            plateau: Plateau::default(),
        }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            percent: default_percent(),
            max_attempts: default_max_attempts(),
            per_client: PerClient::default(),
        }
    }
}

impl Default for PerClient {
    fn default() -> Self {
        Self {
            max_concurrent: default_max_concurrent(),
            min_per_second: default_min_per_second(),
        }
    }
}

fn default_percentile() -> Decimal {
    "95".into()
}

fn default_delay_min() -> DurationText {
    "1ms".into()
}

fn default_delay_add() -> DurationText {
    "0ms".into()
}

fn default_percent() -> Decimal {
    "10".into()
}

fn default_max_attempts() -> i32 {
    2
}

fn default_max_concurrent() -> i32 {
    100
}

fn default_min_per_second() -> Decimal {
    "0".into()
}
