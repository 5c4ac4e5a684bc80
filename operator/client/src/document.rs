//! The document that is followed, and what may be spent under it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use hedgerow_config::{DocumentError, NativeDocument, Timestamp};
use tokio::time::Instant;

use crate::Blocked;
use crate::bucket::TokenBucket;
use crate::metrics::{Outcome, TargetMetrics};

/// What a follower found where the document should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Something to read.
    Bytes(Vec<u8>),
    /// Nothing.
    Missing,
    /// Something that the system does not let us read.
    Unreadable(String),
}

/// The document in use by all clones of one hedger, and their common budget: a budget holds for the process.
#[derive(Debug)]
pub(crate) struct Followed {
    pub(crate) target: String,
    pub(crate) metrics: TargetMetrics,
    /// `None` while there is no document that may be followed.
    document: ArcSwapOption<NativeDocument>,
    /// Whether that is because the last one expired.
    expired: AtomicBool,
    bucket: Mutex<TokenBucket>,
    in_flight: AtomicU32,
}

impl Followed {
    pub(crate) fn new(target: String, metrics: TargetMetrics) -> Self {
        Self {
            target,
            metrics,
            document: ArcSwapOption::empty(),
            expired: AtomicBool::new(false),
            bucket: Mutex::new(TokenBucket::new(Instant::now())),
            in_flight: AtomicU32::new(0),
        }
    }

    /// The document, while it holds.
    pub(crate) fn current(&self, now: Timestamp) -> Option<Arc<NativeDocument>> {
        let document = self.document.load_full()?;
        if document.is_expired(now) {
            self.expire(now);
            return None;
        }
        Some(document)
    }

    /// Takes in what a follower found. Whatever is no document means no hedging, at once: a document that somebody
    /// removed or broke may have been meant to switch off.
    pub(crate) fn take_in(&self, found: &Found, now: Timestamp) -> Result<(), DocumentError> {
        let target = &self.target;
        match found {
            Found::Bytes(bytes) => match NativeDocument::parse(bytes) {
                Ok(document) if document.is_expired(now) => {
                    tracing::warn!(target_name = %target, "the document found has expired: not hedging");
                    self.replace(None, Outcome::Expired);
                }
                Ok(document) => self.accept(document),
                Err(error) => {
                    tracing::warn!(target_name = %target, %error, "the document found is refused: not hedging");
                    let outcome = match error {
                        DocumentError::NewerVersion(_) => Outcome::NewerVersion,
                        _ => Outcome::Malformed,
                    };
                    self.replace(None, outcome);
                    return Err(error);
                }
            },
            Found::Missing => {
                tracing::warn!(target_name = %target, "there is no document: not hedging");
                self.replace(None, Outcome::Missing);
            }
            Found::Unreadable(error) => {
                tracing::warn!(target_name = %target, %error, "the document cannot be read: not hedging");
                self.replace(None, Outcome::Unreadable);
            }
        }
        Ok(())
    }

    /// Gives up a document that no longer holds. Called for each call and by the follower's clock, it acts once.
    pub(crate) fn expire(&self, now: Timestamp) {
        // Under the lock, so that a document that arrives meanwhile is not the one that goes.
        let mut bucket = self.bucket();
        if self
            .document
            .load()
            .as_ref()
            .is_some_and(|document| document.is_expired(now))
        {
            tracing::warn!(target_name = %self.target, "the document has expired: not hedging");
            self.swap(&mut bucket, None, Outcome::Expired);
        }
    }

    fn accept(&self, document: NativeDocument) {
        let content_changed = self
            .document
            .load()
            .as_ref()
            .is_none_or(|old| !old.same_content(&document));
        if content_changed {
            tracing::info!(
                target_name = %self.target,
                revision = document.revision,
                reason = document.reason,
                delay = ?document.hedging.map(|terms| terms.delay),
                percent = document.hedging.map(|terms| terms.budget.percent),
                "following a document"
            );
        }
        self.replace(Some(document), Outcome::Accepted);
    }

    fn replace(&self, document: Option<NativeDocument>, outcome: Outcome) {
        self.swap(&mut self.bucket(), document, outcome);
    }

    fn swap(&self, bucket: &mut TokenBucket, document: Option<NativeDocument>, outcome: Outcome) {
        let terms = document.as_ref().and_then(|document| document.hedging);
        bucket.set_budget(Instant::now(), terms.map(|terms| terms.budget));
        self.metrics.following(document.as_ref());
        self.metrics.found(outcome).inc();
        self.expired.store(outcome == Outcome::Expired, Ordering::Relaxed);
        self.document.store(document.map(Arc::new));
    }

    /// Counts one call into the budget.
    pub(crate) fn earn(&self, now: Instant) {
        self.bucket().call(now);
    }

    /// Takes the token that one extra attempt costs. The document of now says whether there is a budget, and which: it
    /// may have changed since the call began.
    pub(crate) fn spend(&self, now: Timestamp) -> Result<(), Blocked> {
        self.expire(now);
        self.take_token(&mut self.bucket())
    }

    /// The same for a hedge, which also needs a permit: given back when that is dropped.
    pub(crate) fn spend_with_permit(self: &Arc<Self>, now: Timestamp) -> Result<Permit, Blocked> {
        self.expire(now);
        let mut bucket = self.bucket();
        let max_concurrent = bucket.max_concurrent().ok_or_else(|| self.why_off())?;
        // The permit first: a hedge that finds none shall cost no token.
        let permit = Permit::acquire(self, max_concurrent).ok_or(Blocked::Concurrency)?;
        self.take_token(&mut bucket).map(|()| permit)
    }

    fn take_token(&self, bucket: &mut TokenBucket) -> Result<(), Blocked> {
        if bucket.max_concurrent().is_none() {
            Err(self.why_off())
        } else if bucket.take(Instant::now()) {
            Ok(())
        } else {
            Err(Blocked::Budget)
        }
    }

    fn why_off(&self) -> Blocked {
        if self.expired.load(Ordering::Relaxed) {
            Blocked::Expired
        } else {
            Blocked::Off
        }
    }

    /// Permits that are out.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    fn bucket(&self) -> MutexGuard<'_, TokenBucket> {
        // A bucket is whole between any two statements, so a panic elsewhere does not spoil it.
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to have one hedge in flight.
#[derive(Debug)]
pub(crate) struct Permit(Arc<Followed>);

impl Permit {
    fn acquire(followed: &Arc<Followed>, max: u32) -> Option<Self> {
        let one_more = |in_flight: u32| (in_flight < max).then(|| in_flight + 1);
        followed
            .in_flight
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        Some(Self(Arc::clone(followed)))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The wall clock: `validUntil` is a time of day.
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::default().plus(since_epoch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    use crate::Metrics;

    /// When the document below was issued.
    const ISSUED: Timestamp = Timestamp::from_millis(1_796_032_800_000);
    const HOUR: Duration = Duration::from_secs(3600);

    fn followed() -> Arc<Followed> {
        Arc::new(Followed::new("t".to_owned(), Metrics::default().for_target("t")))
    }

    /// The document of the tests at 100 %, issued now and good for an hour.
    fn issued(at: Timestamp) -> Found {
        let mut document = NativeDocument::parse(include_bytes!("../tests/document.json")).unwrap();
        document.validity = hedgerow_config::Validity::new(at, Some(HOUR));
        if let Some(terms) = &mut document.hedging {
            terms.budget.percent = 100.0;
        }
        Found::Bytes(document.to_json().into_bytes())
    }

    #[test]
    fn a_document_holds_until_the_moment_it_says_and_is_given_up_once() {
        let followed = followed();
        followed.take_in(&issued(ISSUED), ISSUED).unwrap();
        let end = ISSUED.plus(HOUR);
        assert!(followed.current(end.minus(Duration::from_millis(1))).is_some());
        assert!(followed.current(end).is_none());
        assert!(followed.current(end).is_none());
        assert_eq!(followed.metrics.found(Outcome::Expired).get(), 1);
    }

    #[test]
    fn a_document_that_has_expired_stays_so_when_the_clock_is_set_back() {
        let followed = followed();
        followed.take_in(&issued(ISSUED), ISSUED).unwrap();
        followed.expire(ISSUED.plus(HOUR));
        assert!(followed.current(ISSUED).is_none());
    }

    #[test]
    fn a_clock_that_is_behind_the_operators_changes_nothing() {
        let followed = followed();
        followed
            .take_in(&issued(ISSUED), ISSUED.minus(10 * HOUR))
            .unwrap();
        assert!(followed.current(ISSUED.minus(10 * HOUR)).is_some());
    }

    #[test]
    fn no_hedge_is_paid_once_the_document_has_expired_though_nobody_looked_before() {
        let followed = followed();
        followed.take_in(&issued(ISSUED), ISSUED).unwrap();
        followed.earn(Instant::now());
        followed.earn(Instant::now());
        assert!(followed.spend_with_permit(ISSUED).is_ok());
        assert_eq!(
            followed.spend_with_permit(ISSUED.plus(HOUR)).unwrap_err(),
            Blocked::Expired
        );
    }

    #[test]
    fn a_renewal_keeps_what_was_earned_and_what_holds() {
        let followed = followed();
        followed.take_in(&issued(ISSUED), ISSUED).unwrap();
        followed.earn(Instant::now());
        let renewed = ISSUED.plus(HOUR / 2);
        followed.take_in(&issued(renewed), renewed).unwrap();
        assert!(followed.spend_with_permit(ISSUED.plus(HOUR)).is_ok());
    }

    #[test]
    fn a_hedge_without_a_permit_costs_no_token() {
        let followed = followed();
        followed.take_in(&issued(ISSUED), ISSUED).unwrap();
        for _ in 0..100 {
            followed.earn(Instant::now());
        }
        let permits: Vec<_> = (0..100)
            .map_while(|_| followed.spend_with_permit(ISSUED).ok())
            .collect();
        assert_eq!(permits.len(), 100);
        followed.earn(Instant::now());
        assert_eq!(
            followed.spend_with_permit(ISSUED).unwrap_err(),
            Blocked::Concurrency
        );
        drop(permits);
        assert!(followed.spend_with_permit(ISSUED).is_ok());
    }
}
