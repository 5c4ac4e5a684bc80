//! The native document: what Hedgerow's own clients read from a ConfigMap key.

use std::time::Duration;

use hedgerow_tuner::{Orders, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The document version that this crate writes. A client refuses a newer major version.
pub const API_VERSION: &str = "hedgerow.dev/v1";

/// The config that a client reads from a ConfigMap key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NativeDocument {
    /// The version of this format.
    pub api_version: String,
    /// The policy as `namespace/name`.
    pub policy: String,
    /// The policy's UID.
    #[serde(rename = "policyUID")]
    pub policy_uid: String,
    /// The target of the policy.
    pub target: String,
    /// Rises by one with each change of content; not an order to rely on.
    pub revision: u64,
    /// When it was written, RFC 3339.
    pub issued_at: String,
    /// Do not hedge after this, RFC 3339; left out when it never expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<String>,
    /// Whether to hedge.
    pub enabled: bool,
    /// Why.
    pub reason: String,
    /// Hedge when the primary has not answered after this many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// What one call may take in all, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<f64>,
    /// Do not hedge with less of the deadline left than this, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_remaining_ms: Option<f64>,
    /// Attempts per call, the primary included.
    pub max_attempts: u8,
    /// What hedging may cost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
}

/// A token bucket that starts empty, gains `percent`/100 per call and loses what it cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Budget {
    /// Hedges per 100 calls.
    pub percent: f64,
    /// Tokens that the bucket may hold, or `percent` of the last second's calls if that is more.
    pub burst: u32,
    /// Hedges per second that are always allowed.
    pub min_per_second: f64,
    /// Hedges in flight at once.
    pub max_concurrent: u32,
}

/// Whose document it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The policy as `namespace/name`.
    pub policy: String,
    /// The policy's UID.
    pub policy_uid: String,
    /// The target.
    pub target: String,
}

/// What a policy fixes for its clients, whatever is decided.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// What one call may take in all.
    pub deadline: Option<Duration>,
    /// Attempts per call, the primary included.
    pub max_attempts: u8,
    /// Hedges in flight per client process.
    pub max_concurrent: u32,
}

/// From when to when a document holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it expires, unless never.
    pub valid_until: Option<Timestamp>,
}

impl NativeDocument {
    /// The document that tells `orders` to clients.
    pub fn new(
        _identity: &Identity,
        _orders: &Orders,
        _limits: &Limits,
        _revision: u64,
        _validity: Validity,
    ) -> Self {
        Self {
            api_version: API_VERSION.to_owned(),
            policy: String::new(),
            policy_uid: String::new(),
            target: String::new(),
            revision: 0,
            issued_at: String::new(),
            valid_until: None,
            enabled: false,
            reason: String::new(),
            delay_ms: None,
            deadline_ms: None,
            min_remaining_ms: None,
            max_attempts: 2,
            budget: None,
        }
    }

    /// Whether two documents tell clients the same: everything but `revision`, `issuedAt` and `validUntil`.
    pub fn same_content(&self, _other: &Self) -> bool {
        false
    }
}
