//! The scrape intervals that were measured, kept for minutes so that the text of queries stays the same. Pure.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::freshness;
use crate::group::Group;
use crate::plan::{Batch, Family};

/// How long a measured interval is used before it is measured again.
const KEPT: Duration = Duration::from_secs(300);

/// How long one is remembered that nobody asks for.
const REMEMBERED: Duration = Duration::from_secs(3600);

/// Scrape intervals by what shares a query.
#[derive(Debug, Default)]
pub(crate) struct Intervals(HashMap<Family, (Duration, Instant)>);

impl Intervals {
    /// The scrape interval of these series.
    pub(crate) fn get(&self, family: &Family) -> Option<Duration> {
        self.0.get(family).map(|(interval, _)| *interval)
    }

    /// Learns from an answer. Of series scraped at different intervals the longest counts: a gauge's largest value is then
    /// taken over more than two scrapes of the others, never over fewer.
    pub(crate) fn learn(&mut self, batch: &Batch, groups: &[Group], now: Instant) {
        let age = self
            .0
            .get(&batch.family)
            .map(|(_, when)| now.duration_since(*when));
        if age.is_some_and(|age| age < KEPT) {
            return;
        }
        if let Some(interval) = groups.iter().filter_map(freshness::scrape_interval).max() {
            self.0
                .retain(|_, (_, when)| now.duration_since(*when) < REMEMBERED);
            self.0.insert(batch.family.clone(), (interval, now));
        }
    }
}
