//! The scrape intervals that were measured, kept for minutes so that the text of queries stays the same. Pure.
//!
//! Two mistakes are to be avoided. An interval that is kept too long makes a gauge's largest value be taken over too many
//! scrapes, so that a switch closes late: so a markedly shorter one is taken as soon as two answers agree on it. One that is
//! kept too short loses the samples of healthy series, which then are unknown: so a markedly longer one is taken at once, and
//! what a single answer says does not shorten it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::freshness;
use crate::group::Group;
use crate::plan::{Batch, Family};

/// How long a measured interval is used before it is measured again.
const KEPT: Duration = Duration::from_secs(300);

/// How long one is remembered that nobody asks for.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Series scraped this many times more rarely than was known could fall out of what counts, which is four scrapes.
const MARKEDLY_LONGER: u32 = 3;

/// Series scraped this many times more often than was known are taken over too many scrapes.
const MARKEDLY_SHORTER: u32 = 2;

/// Scrape intervals by what shares a query.
#[derive(Debug, Default)]
pub(crate) struct Intervals(HashMap<Family, Known>);

/// The scrape interval of one family.
#[derive(Debug)]
struct Known {
    interval: Duration,
    /// Measured then.
    since: Instant,
    /// What the last answer said, if that was markedly shorter.
    shorter: Option<Duration>,
}

impl Intervals {
    /// The scrape interval of these series.
    pub(crate) fn get(&self, family: &Family) -> Option<Duration> {
        self.0.get(family).map(|known| known.interval)
    }

    /// Learns from an answer. Of series scraped at different intervals the longest counts: a gauge's largest value is then
    /// taken over more than two scrapes of the others, never over fewer.
    pub(crate) fn learn(&mut self, batch: &Batch, groups: &[Group], now: Instant) {
        let scraped = || groups.iter().filter(|group| freshness::is_scraped(group));
        let Some(measured) = scraped().filter_map(freshness::scrape_interval).max() else {
            return;
        };
        self.0
            .retain(|_, known| now.duration_since(known.since) < REMEMBERED);
        match self.0.get_mut(&batch.family) {
            Some(known) => {
                let settled = scraped().filter(|group| !freshness::is_young(group));
                known.learn(
                    measured,
                    settled.filter_map(freshness::scrape_interval).max(),
                    now,
                );
            }
            None => {
                let known = Known::new(measured, now);
                self.0.insert(batch.family.clone(), known);
            }
        }
    }
}

impl Known {
    const fn new(interval: Duration, since: Instant) -> Self {
        Self {
            interval,
            since,
            shorter: None,
        }
    }

    /// Learns what was `measured` of all series, and of those that are `settled`, whose interval is not overestimated.
    fn learn(&mut self, measured: Duration, settled: Option<Duration>, now: Instant) {
        let is_old = now.duration_since(self.since) >= KEPT;
        let is_longer = |settled: &Duration| *settled > self.interval.saturating_mul(MARKEDLY_LONGER);
        let is_shorter = measured < self.interval / MARKEDLY_SHORTER;
        if is_old || settled.as_ref().is_some_and(is_longer) {
            *self = Self::new(measured, now);
        } else if let Some(before) = self.shorter.filter(|_| is_shorter) {
            *self = Self::new(before.max(measured), now);
        } else {
            self.shorter = is_shorter.then_some(measured);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selector;
    use crate::measure::{Measure, Part};
    use crate::plan::Ask;

    /// A series that was scraped every `interval` seconds for the last `age` seconds, and not in the last `silent` ones.
    fn series(interval: u32, age: u32, silent: u32) -> Group {
        let samples = |over: u32| f64::from(over.min(age).saturating_sub(silent) / interval);
        let mut points = vec![
            (Part::Newest, None, 1000.0, 1000.0 - f64::from(silent)),
            (Part::ScrapesLong, None, 1000.0, samples(300)),
        ];
        if samples(60) > 0.0 {
            points.push((Part::ScrapesShort, None, 1000.0, samples(60)));
        }
        Group::of(points)
    }

    struct Learner {
        intervals: Intervals,
        batch: Batch,
        begun: Instant,
    }

    impl Learner {
        fn new() -> Self {
            let ask = Ask::new(Measure::Witness, "queue", &Selector::default(), None);
            Self {
                intervals: Intervals::default(),
                batch: Batch {
                    family: ask.family,
                    measure: ask.measure,
                    sets: vec![ask.set],
                },
                begun: Instant::now(),
            }
        }

        /// The interval in seconds after an answer with these series.
        fn after(&mut self, second: u64, groups: &[Group]) -> u64 {
            let now = self.begun + Duration::from_secs(second);
            self.intervals.learn(&self.batch, groups, now);
            self.intervals.get(&self.batch.family).unwrap().as_secs()
        }
    }

    #[test]
    fn a_measured_interval_is_kept_for_five_minutes() {
        let mut learner = Learner::new();
        assert_eq!(learner.after(0, &[series(15, 3600, 0)]), 15);
        assert_eq!(learner.after(299, &[series(20, 3600, 0)]), 15);
        assert_eq!(learner.after(300, &[series(20, 3600, 0)]), 20);
    }

    /// Two samples in a minute look like a scrape every 30 s.
    #[test]
    fn what_was_measured_of_a_young_series_is_corrected_within_its_first_minute() {
        let mut learner = Learner::new();
        assert_eq!(learner.after(0, &[series(5, 10, 0)]), 30);
        let mut last = 30;
        for second in (5..=60).step_by(5) {
            let age = u32::try_from(second).unwrap() + 10;
            let now = learner.after(second, &[series(5, age, 0)]);
            assert!(now <= last, "{second}: {now}");
            last = now;
        }
        assert!(last <= 10, "{last}");
    }

    #[test]
    fn a_single_short_measurement_is_not_believed_and_two_are() {
        let mut learner = Learner::new();
        let (slow, fast) = ([series(60, 3600, 0)], [series(10, 3600, 0)]);
        assert_eq!(learner.after(0, &slow), 60);
        assert_eq!(learner.after(5, &fast), 60);
        assert_eq!(learner.after(10, &slow), 60);
        assert_eq!(learner.after(15, &fast), 60, "not in succession");
        assert_eq!(learner.after(20, &fast), 10);
    }

    #[test]
    fn of_two_short_measurements_the_longer_counts() {
        let mut learner = Learner::new();
        learner.after(0, &[series(60, 3600, 0)]);
        learner.after(5, &[series(5, 3600, 0)]);
        assert_eq!(learner.after(10, &[series(20, 3600, 0)]), 20);
    }

    /// What counts of a gauge is what is at most four of its scrapes old.
    #[test]
    fn series_that_are_scraped_much_more_rarely_count_at_once() {
        let mut learner = Learner::new();
        let fast = || series(15, 3600, 0);
        assert_eq!(learner.after(0, &[fast()]), 15);
        assert_eq!(learner.after(5, &[fast(), series(60, 3600, 0)]), 60);
        assert_eq!(learner.after(10, &[fast(), series(60, 3600, 0)]), 60);
    }

    #[test]
    fn a_young_series_does_not_lengthen_the_interval_of_the_others() {
        let mut learner = Learner::new();
        assert_eq!(learner.after(0, &[series(5, 3600, 0)]), 5);
        for age in (10..=300).step_by(5) {
            let both = [series(5, 3600, 0), series(5, age, 0)];
            assert_eq!(learner.after(u64::from(age) - 5, &both), 5, "{age}");
        }
    }

    #[test]
    fn a_series_that_is_no_longer_scraped_lengthens_nothing() {
        let mut learner = Learner::new();
        assert_eq!(learner.after(0, &[series(15, 3600, 0)]), 15);
        for silent in (5..280).step_by(5) {
            let both = [series(15, 3600, 0), series(15, 3600, silent)];
            assert!(learner.after(u64::from(silent), &both) <= 17, "{silent}");
        }
        // Alone, it teaches nothing.
        let mut alone = Learner::new();
        alone.after(0, &[series(15, 3600, 0)]);
        assert_eq!(alone.after(400, &[series(15, 3600, 200)]), 15);
    }
}
