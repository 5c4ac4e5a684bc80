//! When an attempt has really ended.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;
use tracing::Span;

use crate::Attempt;
use crate::document::Permit;
use crate::metrics::TargetMetrics;

/// Says that an attempt has not really ended. Made by [`Attempt::completion`].
#[derive(Clone, Debug)]
pub struct Completion {
    _ending: Arc<Ending>,
}

/// The endings of a call's attempts of which somebody tells the end. Without any it costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Endings(Mutex<Vec<(u32, Weak<Ending>)>>);

impl Endings {
    /// A guard of an attempt's end.
    pub(crate) fn completion(&self, id: u32, metrics: &TargetMetrics) -> Completion {
        Completion {
            _ending: self.ending(id, metrics),
        }
    }

    fn ending(&self, id: u32, metrics: &TargetMetrics) -> Arc<Ending> {
        let mut endings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = endings.iter().position(|(of, _)| *of == id);
        if let Some(ending) = place.and_then(|place| endings[place].1.upgrade()) {
            return ending;
        }
        let ending = Arc::new(Ending {
            survival: metrics.loser_survival.clone(),
            over: Mutex::default(),
        });
        let entry = (id, Arc::downgrade(&ending));
        match place {
            Some(place) => endings[place] = entry,
            None => endings.push(entry),
        }
        ending
    }

    /// The ending of an attempt, if somebody was to tell it: dangling if he has told it already.
    fn take(&self, id: u32) -> Option<Weak<Ending>> {
        let mut endings = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = endings.iter().position(|(of, _)| *of == id)?;
        Some(endings.swap_remove(place).1)
    }
}

/// What is given back when the last guard of an attempt goes.
#[derive(Debug)]
pub(crate) struct Ending {
    survival: Histogram,
    over: Mutex<Over>,
}

/// What an attempt whose future is gone leaves behind.
#[derive(Debug, Default)]
struct Over {
    permit: Option<Permit>,
    cancelled: Option<Instant>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let over = self.over.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = over.cancelled {
            self.survival.observe(at.elapsed().as_secs_f64());
        }
        // The permit goes with `over`.
    }
}

/// An attempt in flight, beside its future. Dropped before it was told how the attempt ended, the attempt was cancelled.
#[derive(Debug)]
pub(crate) struct InFlight {
    pub(crate) attempt: Attempt,
    pub(crate) began: Instant,
    pub(crate) span: Span,
    permit: Option<Permit>,
    returned: bool,
}

impl InFlight {
    pub(crate) fn new(attempt: Attempt, permit: Option<Permit>, now: Instant) -> Self {
        let span = tracing::debug_span!(
            "attempt",
            target_name = attempt.call.target(),
            number = attempt.number,
            kind = attempt.kind.label(),
            outcome = tracing::field::Empty,
        );
        Self {
            attempt,
            began: now,
            span,
            permit,
            returned: false,
        }
    }

    /// It returned something, and its `outcome` is known.
    pub(crate) fn returned(mut self, outcome: &'static str) {
        self.returned = true;
        self.span.record("outcome", outcome);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.returned {
            self.span.record("outcome", "cancelled");
        }
        let call = &self.attempt.call;
        let Some(ending) = call.endings().take(self.attempt.id) else {
            return;
        };
        let cancelled = (!self.returned).then(Instant::now);
        match ending.upgrade() {
            Some(ending) => {
                let mut over = ending.over.lock().unwrap_or_else(PoisonError::into_inner);
                over.permit = self.permit.take();
                over.cancelled = cancelled;
            }
            // It had ended before it was cancelled.
            None if cancelled.is_some() => call.metrics().loser_survival.observe(0.0),
            None => {}
        }
    }
}
