//! The decision: readings in, hedging out.
//!
//! Everything here is a pure function of values: no clock, no I/O, no Kubernetes. `now` is passed in, and no input
//! panics. [`decide`] is the whole interface; the other modules are its parts and the words it speaks.
//!
//! The safe direction is a longer delay, a smaller budget, off. Unknown is never zero, and in doubt a decision moves
//! only in the safe direction.

mod binomial;
mod budget;
mod censoring;
mod closed_loop;
mod counted;
mod decide;
mod decision;
mod delay;
mod diagnosis;
mod distribution;
mod effect;
mod finding;
mod fitness;
mod guidance;
mod history;
mod interpolation;
mod inversion;
mod latency;
mod memory;
mod message;
mod messages;
mod native;
mod observation;
mod quantile;
mod reading;
mod reason;
mod rules;
mod saturation;
mod survival;
mod switch;
mod tail;
mod tally;
mod time;
mod told;
mod wilson;
mod windows;

pub use decide::{decide, decide_settled};
pub use decision::{Decision, Diagnosis, Effect, Hedging, LatencyView, Orders, SignalView, SwitchState};
pub use distribution::Histogram;
pub use guidance::{CountsView, Guidance, Measured};
pub use memory::Memory;
pub use message::Message;
pub use messages::number;
pub use native::NativeBucket;
pub use quantile::Quantile;
pub use reading::{
    Alert, Counts, Latency, Readings, Signal, SignalValue, Stop, Unknown, WindowCounts, WindowReading,
};
pub use reason::{Basis, DiagnosisReason, LimitedBy, Reason, UnknownReason};
pub use rules::{
    Budget, Delay, Line, Measures, Mode, NoBenefit, Plateau, Rules, SignalRules, SwitchRules, Windows,
};
pub use time::Timestamp;
