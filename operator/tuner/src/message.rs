//! A decision's reason in words.

use std::fmt;
use std::time::Duration;

use crate::{Quantile, messages};

/// The reason of a decision with its numbers, for people. What is said most often is put into words only where it is shown:
/// few decisions of a hundred are.
#[derive(Clone, Debug, PartialEq)]
pub struct Message(Words);

#[derive(Clone, Debug, PartialEq)]
enum Words {
    Text(String),
    Latency(Percentile),
}

/// `p95 512 ms of 12000 calls in 10m`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Percentile {
    /// Which quantile.
    pub(crate) quantile: f64,
    /// The quantile.
    pub(crate) found: Quantile,
    /// Of so many calls.
    pub(crate) calls: f64,
    /// In this window.
    pub(crate) window: Duration,
    /// Where the quantile lies in a slow mode: the share of the calls that pass the delay under it, and that delay in seconds.
    pub(crate) under_slow_mode: Option<(f64, f64)>,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Words::Text(text) => f.pad(text),
            Words::Latency(percentile) => percentile.fmt(f),
        }
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = messages::percentile(self.quantile);
        let found = match self.found {
            Quantile::Estimate { seconds, .. } => messages::milliseconds(seconds),
            Quantile::AtLeast(bound) => format!("at least {}", messages::milliseconds(bound)),
        };
        let window = messages::duration(self.window);
        write!(f, "{name} {found} of {:.0} calls in {window}", self.calls)?;
        if let Some((share, delay)) = self.under_slow_mode {
            let (share, delay) = (messages::share(share), messages::milliseconds(delay));
            write!(f, ", in a slow mode; under it {share} pass {delay}")?;
        }
        Ok(())
    }
}

impl From<String> for Message {
    fn from(text: String) -> Self {
        Self(Words::Text(text))
    }
}

impl From<Percentile> for Message {
    fn from(percentile: Percentile) -> Self {
        Self(Words::Latency(percentile))
    }
}
