//! One physical request.

use std::time::Duration;

use crate::{Blocked, Call, Completion};

/// One physical request of a call. Clones are the same attempt.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// 0 for the primary, then 1, 2, ...; beyond 0 always below the number of replicas that the call was given. (The
    /// primary is sent in any case.)
    pub number: usize,
    /// What kind of attempt it is.
    pub kind: Kind,
    pub(crate) id: u32,
    pub(crate) call: Call,
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
    /// A transport takes it where it takes the request ([`Attempt::current`] says of which attempt, in a Tower service),
    /// and drops it when the stream is closed. Where none is taken the
    /// attempt ends with its future. Of an attempt that is over already it is a guard of nothing.
    #[must_use = "the attempt ends when this is dropped"]
    pub fn completion(&self) -> Completion {
        self.call.endings().completion(self.id, self.call.metrics())
    }
}
