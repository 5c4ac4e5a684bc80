//! Follows a Hedgerow document and hedges within its rules.
//!
//! A [`Hedger`] reads the document that the Hedgerow operator writes for one kind of call, and follows its changes.
//! [`Hedger::call`] sends the primary attempt, and when that has not answered within the document's delay, a hedge to
//! another replica. The first valid answer wins; the attempts that lost are dropped at once. **Hedge only calls that are safe
//! to run twice.**
//!
//! ```
//! # use hedgerow_client::{Hedger, Metrics};
//! # use std::{convert::Infallible, time::Duration};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let metrics = Metrics::default();
//! metrics.register(&mut prometheus_client::registry::Registry::default());
//!
//! let hedger = Hedger::builder("shard-read")
//!     .metrics(&metrics)
//!     .deadline(Duration::from_secs(1))
//!     .follow_directory("/etc/hedging", "shard-read.json")
//!     .await;
//!
//! let replicas = ["10.0.0.1:80", "10.0.0.2:80"];
//! let read = |address: &'static str| async move { Ok::<_, Infallible>(format!("read from {address}")) };
//!
//! let answer = hedger.call(replicas.len(), |attempt| read(replicas[attempt.number])).await;
//! assert_eq!(answer, Ok("read from 10.0.0.1:80".to_owned()));
//! # }
//! ```
//!
//! `cargo run -p hedgerow-client --example two-replicas` shows it at work on two HTTP servers.
//!
//! # Which answer wins
//!
//! The first success; with [`call_checked`](Hedger::call_checked) the first that the caller's check finds *valid*, so
//! that neither a fast `503` nor a stale replica wins. An answer that is not valid is as if it had not come, and does not
//! move the time of the next hedge: hedging helps against slowness, and must not multiply the load of a service that fails
//! because it has too much of it. When nothing is in flight any more the call ends, with an error that says what each
//! attempt returned; or the next replica is asked, where [`OnFailure::Retry`] says so, which is a retry.
//!
//! # Retries
//!
//! A [`Call`] holds one deadline, one count of attempts (`maxAttempts`, retries included) and one way to the budget.
//! Whatever sends an extra attempt draws on it, so that retries around the hedge, retries inside of it and the hedge
//! itself do not multiply: in code of your own by [`Call::retry`] and [`Attempt::retry`], in Tower by a `RetryPolicy`.
//! While hedging is off there is no budget, and nothing is sent twice. A call that is sent again by somebody who knows
//! nothing of this is paid for as well, or refused.
//!
//! # When a loser has ended
//!
//! The attempts that lost are cancelled by dropping their futures, and a hedge gives its permit of `maxConcurrent` back
//! with that. A server may work on all the same. A transport that knows when a stream is really closed takes
//! [`Attempt::completion`], a guard that it drops then: the permit waits for it, and how long losers live on is measured.
//!
//! # With Tower
//!
//! By the feature `tower`, which is on unless it is refused. `HedgeLayer` makes one service of the services of several
//! replicas, `CallLayer` one call of all that is sent below it, `RetryPolicy` draws on that, and a server's
//! `ShedHedgesLayer` turns hedges away while it is busy. Requests of `http` carry their call in their extensions, what runs
//! in an attempt finds it by [`Attempt::current`], and hedges say what they are in a header, `x-hedgerow-attempt`.
//!
//! # Ways to a document
//!
//! | | needs | a change is seen |
//! | --- | --- | --- |
//! | [`follow_directory`](HedgerBuilder::follow_directory) | the ConfigMap mounted as a directory, with `optional: true`; never by `subPath`, which does not change | when kubelet has swapped it in, a minute or so after the write |
//! | `follow_config_map` (feature `kube`) | the verbs `list` and `watch` on that ConfigMap | in less than a second |
//! | [`follow_feed`](HedgerBuilder::follow_feed) | config that arrives on a way of your own | at once |
//!
//! # When it does not hedge
//!
//! Always when in doubt. A document that is missing, unreadable, malformed, of a newer major version or past its
//! `validUntil` means no hedging at once, for calls in flight too; the calls themselves go on. While the API cannot be
//! reached the last document holds, until its `validUntil`: keep the clocks of your nodes right.
//!
//! Beyond that a hedge is skipped, never queued, and counted by its reason when
//! - `budget`: the token bucket is empty. It starts empty and gains `percent`/100 per call and `minPerSecond` per second;
//!   what it holds is bounded by the burst or the last second's share, so that a quiet hour cannot pay for a storm;
//! - `concurrency`: `maxConcurrent` hedges of this process are in flight, or have lost and not ended;
//! - `deadline`: less than `minRemainingMs` of the deadline is left, so that the hedge could hardly answer in time;
//! - `replicas`: every replica has an attempt of this call already;
//! - `attempts`: retries have used up the attempts of the call;
//! - `off`: hedging was turned off after the call began;
//! - `expired`: the document expired after the call began.
//!
//! So since hedging came on, attempts per call are at most 1 + `percent`/100, retries included; in a stretch that begins
//! later there are at most as many more as the bucket held at its beginning ([`Budget`](hedgerow_config::Budget)).
//!
//! The delay, `minRemainingMs`, `maxAttempts` and the deadline are those of the document under which a call began; the
//! budget is that of now. Hedges that are in flight when hedging is turned off run on.
//!
//! # What it costs
//!
//! A call that is not hedged allocates once, for what its attempts share, with Tower and without, and takes under a
//! microsecond more. `cargo bench -p hedgerow-client` measures both, beside `tower::hedge`.
//!
//! # What it tells
//!
//! [`Metrics`] for Prometheus, and a `tracing` span `attempt` at the level `DEBUG` for each attempt, from its sending to its
//! end, with `target_name`, `number`, `kind` (`primary`, `hedge`, `retry`) and `outcome` (`won`, `invalid`, `failed`,
//! `cancelled`).

#[cfg(feature = "kube")]
mod api;
mod attempt;
mod bucket;
mod call;
mod check;
mod course;
mod directory;
mod document;
mod ending;
mod error;
mod hedger;
#[cfg(feature = "tower")]
mod logical;
mod metrics;
mod race;
#[cfg(feature = "tower")]
mod request;
#[cfg(feature = "tower")]
mod retry;
mod running;
#[cfg(feature = "tower")]
mod service;
#[cfg(feature = "tower")]
mod shed;

pub use attempt::{Attempt, Kind};
pub use call::Call;
pub use check::{AnyAnswer, Check};
pub use ending::Completion;
pub use error::{Blocked, CallError, DeadlineExceeded, Invalid, Problem, Returned};
pub use hedger::{Feed, Hedger, HedgerBuilder, OnFailure};
pub use hedgerow_config::{DocumentError, NativeDocument};
pub use metrics::Metrics;

#[cfg(feature = "tower")]
pub use {
    logical::{CallFuture, CallLayer, CallService},
    request::{ATTEMPT_HEADER, Hedgeable},
    retry::RetryPolicy,
    service::{HedgeLayer, HedgedFuture, HedgedService},
    shed::{ShedFuture, ShedHedges, ShedHedgesLayer, TurnAway, Unavailable},
};
