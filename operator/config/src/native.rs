//! The native document: what Hedgerow's own clients read from a ConfigMap key.

use std::time::Duration;

use hedgerow_tuner::{Hedging, Orders, Reason, Timestamp};
use serde::Deserialize;

use crate::wire::{API_VERSION, Wire, WireBudget};
use crate::{DocumentError, Validity};

/// Tokens that a client's bucket may hold in any case.
const BURST: u32 = 10;

/// The largest time that a document may name: the largest that a policy may.
const LONGEST: Duration = Duration::from_secs(3600);

/// The config that a client reads from a ConfigMap key.
///
/// It hedges exactly when it has [`Terms`], so an off document cannot carry a delay, nor an enabled one lack it.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeDocument {
    /// Whose document it is.
    pub identity: Identity,
    /// Rises by one with each change of content; not an order to rely on.
    pub revision: u64,
    /// From when to when it holds.
    pub validity: Validity,
    /// `Tuned` or `Ramping` when on, else what turned hedging off. A string: a later version may know more names.
    pub reason: String,
    /// What one call may take in all, hedged or not.
    pub deadline: Option<Duration>,
    /// Attempts per call, the primary included: 2 to 5.
    pub max_attempts: u8,
    /// How to hedge; `None` is not at all.
    pub hedging: Option<Terms>,
}

/// How to hedge. What is read from a document or made of orders is within the ranges given here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Hedge when the primary has not answered after this. Above zero, an hour at most.
    pub delay: Duration,
    /// Do not hedge with less of the deadline left than this.
    pub min_remaining: Duration,
    /// What hedging may cost.
    pub budget: Budget,
}

/// What hedging may cost each client process: a token bucket that starts empty, gains `percent`/100 per call, holds at
/// most the larger of `burst` and `percent`/100 x the calls of the last second and loses the excess; and a limit on
/// concurrency.
///
/// So from the moment at which hedging comes on, `n` calls have at most `percent`/100 x `n` hedges and retries (and
/// `min_per_second` for each second): attempts per call are at most 1 + `percent`/100. In a stretch that begins later
/// there are at most as many more as the bucket may hold at its beginning: the burst, or the share of the calls of the
/// second before. Whatever documents come meanwhile, each call pays by that of its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// Hedges per 100 calls, in `(0, 100]`.
    pub percent: f64,
    /// Tokens that the bucket may hold in any case, from 1 to a million.
    pub burst: u32,
    /// Tokens gained per second beside those for calls, from 0.
    pub min_per_second: f64,
    /// Hedges in flight at once, 1 to 100,000.
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

impl NativeDocument {
    /// Bytes that a document has at most, a hundred times what one has: what is longer is none, and shall neither be held
    /// nor logged.
    pub const LARGEST: usize = 1 << 16;

    /// The document that tells `orders` to clients.
    ///
    /// Total, and safe whatever the orders: those that no client could follow (a delay of zero, a percent that is not a
    /// number) become an off document with the reason `LatencyUnknown`, and those that hedge for a reason to be off
    /// become an off document with that reason.
    pub fn new(
        identity: &Identity,
        orders: &Orders,
        limits: &Limits,
        revision: u64,
        validity: Validity,
    ) -> Self {
        let (hedging, reason) = match orders.hedging.map(|hedging| Terms::new(&hedging, limits)) {
            Some(Ok(terms)) if hedges(orders.reason) => (Some(terms), orders.reason),
            Some(Err(_)) => (None, Reason::LatencyUnknown),
            Some(Ok(_)) | None => (None, orders.reason),
        };
        Self {
            identity: identity.clone(),
            revision,
            validity,
            reason: reason.as_str().to_owned(),
            deadline: limits.deadline,
            max_attempts: limits.max_attempts,
            hedging,
        }
    }

    /// Whether two documents tell clients the same: everything but `revision`, `issuedAt` and `validUntil`.
    pub fn same_content(&self, other: &Self) -> bool {
        let Self {
            identity,
            revision: _,
            validity: _,
            reason,
            deadline,
            max_attempts,
            hedging,
        } = self;
        *identity == other.identity
            && *reason == other.reason
            && *deadline == other.deadline
            && *max_attempts == other.max_attempts
            && *hedging == other.hedging
    }

    /// Whether it no longer holds at `now`.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.validity.is_expired(now)
    }

    /// The document as JSON: indented, one field a line, always in the same order, with a newline at the end, so that
    /// `kubectl get configmap -o yaml` and a diff read well.
    pub fn to_json(&self) -> String {
        // Writing these plain fields cannot fail. Were it to, what is written is malformed, and clients do not hedge.
        serde_json::to_string_pretty(&Wire::from(self)).unwrap_or_default() + "\n"
    }

    /// Reads a document, and refuses whatever would be unsafe to follow. Unknown fields are ignored, so that a minor
    /// version can add some. An off document stays off whatever else it says, and one that is enabled for a reason to be
    /// off is refused.
    ///
    /// Pure and total: no bytes make it panic. It does not ask whether the document has expired: see [`is_expired`](Self::is_expired).
    ///
    /// # Errors
    /// When it is no document, is of a newer major version, is enabled without what hedging needs, or has a number
    /// outside its range.
    pub fn parse(json: &[u8]) -> Result<Self, DocumentError> {
        if json.len() > Self::LARGEST {
            return Err(DocumentError::TooLong(json.len()));
        }
        check_version(json)?;
        serde_json::from_slice::<Wire>(json)?.try_into()
    }
}

impl Terms {
    /// Those of orders, within the ranges of a document.
    pub(crate) fn new(hedging: &Hedging, limits: &Limits) -> Result<Self, DocumentError> {
        Ok(Self {
            delay: positive_time("delayMs", hedging.delay_ms)?,
            min_remaining: time("minRemainingMs", hedging.min_remaining_ms)?,
            budget: Budget::checked(WireBudget {
                percent: hedging.percent,
                burst: BURST,
                min_per_second: hedging.min_per_second,
                max_concurrent: limits.max_concurrent,
            })?,
        })
    }
}

impl Budget {
    fn checked(wire: WireBudget) -> Result<Self, DocumentError> {
        in_range("budget.percent", wire.percent, "above 0, at most 100", |x| {
            x > 0.0 && x <= 100.0
        })?;
        in_range("budget.burst", wire.burst.into(), "1 to 1000000", |x| {
            (1.0..=1e6).contains(&x)
        })?;
        in_range(
            "budget.minPerSecond",
            wire.min_per_second,
            "0 to 1000000000",
            |x| (0.0..=1e9).contains(&x),
        )?;
        in_range(
            "budget.maxConcurrent",
            wire.max_concurrent.into(),
            "1 to 100000",
            |x| (1.0..=1e5).contains(&x),
        )?;
        Ok(Self {
            percent: wire.percent,
            burst: wire.burst,
            min_per_second: wire.min_per_second,
            max_concurrent: wire.max_concurrent,
        })
    }
}

impl From<&NativeDocument> for Wire {
    fn from(document: &NativeDocument) -> Self {
        let terms = document.hedging.as_ref();
        Self {
            api_version: API_VERSION.to_owned(),
            policy: document.identity.policy.clone(),
            policy_uid: document.identity.policy_uid.clone(),
            target: document.identity.target.clone(),
            revision: document.revision,
            issued_at: document.validity.issued_at,
            valid_until: document.validity.valid_until,
            enabled: terms.is_some(),
            reason: document.reason.clone(),
            delay_ms: terms.map(|terms| millis(terms.delay)),
            deadline_ms: document.deadline.map(millis),
            min_remaining_ms: terms.map(|terms| millis(terms.min_remaining)),
            max_attempts: document.max_attempts,
            budget: terms.map(|terms| WireBudget {
                percent: terms.budget.percent,
                burst: terms.budget.burst,
                min_per_second: terms.budget.min_per_second,
                max_concurrent: terms.budget.max_concurrent,
            }),
        }
    }
}

impl TryFrom<Wire> for NativeDocument {
    type Error = DocumentError;

    fn try_from(wire: Wire) -> Result<Self, DocumentError> {
        in_range("maxAttempts", wire.max_attempts.into(), "2 to 5", |x| {
            (2.0..=5.0).contains(&x)
        })?;
        let deadline = wire
            .deadline_ms
            .map(|ms| positive_time("deadlineMs", ms))
            .transpose()?;
        let hedging = if wire.enabled {
            // A name that is not known is of a later version, which may know more of them.
            let is_known = |reason: &&Reason| reason.as_str() == wire.reason;
            if Reason::ALL
                .iter()
                .find(is_known)
                .is_some_and(|reason| !hedges(*reason))
            {
                return Err(DocumentError::EnabledAndOff(wire.reason));
            }
            let needed = DocumentError::MissingWhenEnabled;
            Some(Terms {
                delay: positive_time("delayMs", wire.delay_ms.ok_or(needed("delayMs"))?)?,
                min_remaining: time(
                    "minRemainingMs",
                    wire.min_remaining_ms.ok_or(needed("minRemainingMs"))?,
                )?,
                budget: Budget::checked(wire.budget.ok_or(needed("budget"))?)?,
            })
        } else {
            None
        };
        Ok(Self {
            identity: Identity {
                policy: wire.policy,
                policy_uid: wire.policy_uid,
                target: wire.target,
            },
            revision: wire.revision,
            validity: Validity {
                issued_at: wire.issued_at,
                valid_until: wire.valid_until,
            },
            reason: wire.reason,
            deadline,
            max_attempts: wire.max_attempts,
            hedging,
        })
    }
}

/// Whether a document says this when it hedges.
fn hedges(reason: Reason) -> bool {
    matches!(reason, Reason::Tuned | Reason::Ramping)
}

/// The version comes before everything else: what a newer one means by its fields cannot be known.
fn check_version(json: &[u8]) -> Result<(), DocumentError> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Head {
        api_version: String,
    }
    let Head { api_version } = serde_json::from_slice(json)?;
    if api_version == API_VERSION {
        return Ok(());
    }
    let major = api_version.strip_prefix("hedgerow.dev/v").map(str::parse::<u64>);
    Err(match major {
        Some(Ok(2..)) => DocumentError::NewerVersion(api_version),
        _ => DocumentError::ForeignVersion(api_version),
    })
}

/// Milliseconds, to the microsecond. (Up to 71 minutes, more than a document may say.)
fn millis(time: Duration) -> f64 {
    f64::from(u32::try_from(time.as_micros()).unwrap_or(u32::MAX)) / 1e3
}

/// A time in milliseconds, to the microsecond, from zero to an hour.
fn time(field: &'static str, ms: f64) -> Result<Duration, DocumentError> {
    let range = "0 to 3600000";
    in_range(field, ms, range, |ms| {
        (0.0..=LONGEST.as_secs_f64() * 1e3).contains(&ms)
    })?;
    let micros = Duration::try_from_secs_f64((ms * 1e3).round() / 1e6);
    micros.map_err(|_| DocumentError::OutOfRange {
        field,
        value: ms,
        range,
    })
}

/// The same, and not zero once it is rounded.
fn positive_time(field: &'static str, ms: f64) -> Result<Duration, DocumentError> {
    match time(field, ms)? {
        Duration::ZERO => Err(DocumentError::OutOfRange {
            field,
            value: ms,
            range: "above 0, at most 3600000",
        }),
        time => Ok(time),
    }
}

fn in_range(
    field: &'static str,
    value: f64,
    range: &'static str,
    holds: impl Fn(f64) -> bool,
) -> Result<(), DocumentError> {
    if holds(value) {
        Ok(())
    } else {
        Err(DocumentError::OutOfRange { field, value, range })
    }
}
