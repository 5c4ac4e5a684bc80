//! From when to when a document holds, and when it is renewed.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use hedgerow_tuner::Timestamp;

/// From when to when a document holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When it expires; `None` is never.
    pub valid_until: Option<Timestamp>,
}

impl Validity {
    /// A validity that begins `now` and ends after `expiry`, or never.
    pub fn new(now: Timestamp, expiry: Option<Duration>) -> Self {
        Self {
            issued_at: now,
            valid_until: expiry.map(|expiry| now.plus(expiry)),
        }
    }

    /// Whether it is over. At the very moment of `valid_until` it is.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.valid_until.is_some_and(|until| now >= until)
    }

    /// When to renew the documents of one ConfigMap; `None` is never.
    ///
    /// At half of the lifetime on average. `seed` (the ConfigMap's UID, say) moves it to a fixed place in the middle
    /// third, evenly over all seeds: 10,000 documents of one hour that were issued together are renewed over 20
    /// minutes, about 8 a second, and each still has a third of its life left as a reserve.
    pub fn renewal_at(&self, seed: impl Hash) -> Option<Timestamp> {
        let lifetime = self.valid_until?.since(self.issued_at);
        Some(
            self.issued_at
                .plus(lifetime / 3 + lifetime.mul_f64(fraction_of(seed) / 3.0)),
        )
    }

    /// Whether the time of [`renewal_at`](Self::renewal_at) has come.
    pub fn renewal_due(&self, now: Timestamp, seed: impl Hash) -> bool {
        self.renewal_at(seed).is_some_and(|at| now >= at)
    }
}

/// A number in `[0, 1)` that is always the same for `seed`, evenly over all seeds: for spreading what would else happen at
/// once. A Rust release may change the hash, so nothing may depend on more than the spread.
pub fn fraction_of(seed: impl Hash) -> f64 {
    let mut hasher = DefaultHasher::new();
    seed.hash(&mut hasher);
    // The upper 32 bits: f64 holds them exactly.
    let upper = u32::try_from(hasher.finish() >> 32).unwrap_or(u32::MAX);
    f64::from(upper) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1000)
    }

    #[test]
    fn a_document_is_over_at_the_moment_it_says() {
        let validity = Validity::new(at(100), Some(HOUR));
        assert!(!validity.is_expired(Timestamp::from_millis(3_699_999)));
        assert!(validity.is_expired(at(3700)));
    }

    #[test]
    fn never_is_neither_over_nor_renewed() {
        let validity = Validity::new(at(100), None);
        assert!(!validity.is_expired(Timestamp::from_millis(i64::MAX)));
        assert_eq!(validity.renewal_at("uid"), None);
        assert!(!validity.renewal_due(Timestamp::from_millis(i64::MAX), "uid"));
    }

    #[test]
    fn a_renewal_is_due_from_its_time_on_and_not_before() {
        let validity = Validity::new(at(0), Some(HOUR));
        let due = validity.renewal_at("uid").unwrap();
        assert!(!validity.renewal_due(due.minus(Duration::from_millis(1)), "uid"));
        assert!(validity.renewal_due(due, "uid"));
    }

    #[test]
    fn the_same_config_map_always_has_the_same_place() {
        let validity = Validity::new(at(0), Some(HOUR));
        assert_eq!(validity.renewal_at("a"), validity.renewal_at("a"));
        assert_ne!(validity.renewal_at("a"), validity.renewal_at("b"));
    }

    /// 10,000 seeds over 20 minutes are 500 a minute. The count of one minute is binomial, so its standard deviation is
    /// about 22; the seeds are fixed, so this either always holds or never does.
    #[test]
    fn renewals_of_documents_issued_together_are_spread_evenly_over_the_middle_third() {
        let validity = Validity::new(at(0), Some(HOUR));
        let mut per_minute = [0_u32; 20];
        for n in 0..10_000 {
            let seed = format!("00000000-0000-4000-8000-{n:012}");
            let minute = (validity.renewal_at(seed).unwrap().as_millis() / 60_000) - 20;
            per_minute[usize::try_from(minute).unwrap()] += 1;
        }
        for count in per_minute {
            assert!((400..=600).contains(&count), "{per_minute:?}");
        }
    }
}
