//! One physical request, and how its end is told.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;
use tokio::time::Instant;
use tracing::Span;

use crate::document::Permit;
use crate::{Blocked, Call};

/// One physical request of a call. Clones are the same attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// 0 for the primary, then 1, 2, ...; beyond 0 always below the number of replicas that the call was given. (The
    /// primary is sent in any case.)
    pub number: usize,
    /// What kind of attempt it is.
    pub kind: Kind,
    id: u32,
    call: Call,
}

/// What an attempt is sent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first of a call, or of a call that is sent again as a whole.
    Primary,
    /// An extra one, beside one that has not answered yet.
    Hedge,
    /// In the place of one that gave no valid answer (see [`OnFailure::Retry`](crate::OnFailure::Retry)).
    Retry,
}

impl Kind {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Hedge => "hedge",
            Self::Retry => "retry",
        }
    }
}

impl Attempt {
    pub(crate) fn new(call: Call, id: u32, number: usize, kind: Kind) -> Self {
        Self {
            number,
            kind,
            id,
            call,
        }
    }

    /// Whether it is a hedge: an extra attempt, beside one that has not answered yet.
    pub fn is_hedge(&self) -> bool {
        self.kind == Kind::Hedge
    }

    /// The call that it belongs to.
    pub fn call(&self) -> &Call {
        &self.call
    }

    /// Pays for sending this attempt's request once more, to the same replica: from the call's attempts and from the
    /// budget, as a hedge does. For retries *inside* of a hedge; see [`Call::retry`] for those around it.
    ///
    /// # Errors
    /// When it may not be sent again. It is counted.
    pub fn retry(&self) -> Result<(), Blocked> {
        self.retry_after(Duration::ZERO)
    }

    /// The same for a retry that is sent after a `pause`.
    ///
    /// # Errors
    /// When it may not be sent again. It is counted.
    pub fn retry_after(&self, pause: Duration) -> Result<(), Blocked> {
        self.call.pay_for_retry(pause)?;
        self.call.metrics().attempts.inc();
        Ok(())
    }

    /// A guard that says: this attempt still occupies a connection or a stream. While one lives the attempt has not
    /// really ended, whatever became of its future: a hedge keeps its permit of `maxConcurrent`, and the time that an
    /// attempt lives on after it was cancelled is measured (`hedgerow_client_loser_survival_seconds`).
    ///
    /// A transport takes it where it takes the request, and drops it when the stream is closed. Where none is taken the
    /// attempt ends with its future. Of an attempt that is over already it is a guard of nothing.
    #[must_use = "the attempt ends when this is dropped"]
    pub fn completion(&self) -> Completion {
        Completion {
            _ending: self.call.endings().of(self.id, self.call.metrics()),
        }
    }
}

/// Says that an attempt has not really ended. Made by [`Attempt::completion`].
#[derive(Clone, Debug)]
pub struct Completion {
    _ending: Arc<Ending>,
}

/// The endings of a call's attempts of which somebody tells the end. No entry costs nothing.
#[derive(Debug, Default)]
pub(crate) struct Endings(Mutex<Vec<(u32, Weak<Ending>)>>);

impl Endings {
    fn of(&self, id: u32, metrics: &crate::metrics::TargetMetrics) -> Arc<Ending> {
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
