//! How old a sample is, and how old it may be. Pure; ages are measured on the server's clock alone.

use std::time::Duration;

use hedgerow_tuner::{Unknown, UnknownReason};

use crate::group::{Group, Point};
use crate::measure::{LONG_COUNT, Part, SHORT_COUNT};
use crate::promql;

/// A sample may be this old however often it is scraped.
const SMALLEST_LIMIT: Duration = Duration::from_secs(60);

/// How old it may be where the scrape interval is not known.
const UNMEASURED_LIMIT: Duration = Duration::from_secs(120);

/// An increase over fewer scrapes is made up from the two or three that are left when one is late.
const FEWEST_SCRAPES: u32 = 4;

/// The share of falling samples above which several counters answer one scrape. Restarts fall once; with `n` workers
/// behind one port about half of `(n - 1) / n` of the samples fall.
const UNSTABLE_SHARE: f64 = 0.2;

/// The scrape interval, from how many samples there were in the last minutes.
///
/// A series younger than the long count has too few samples in it; that shows in nearly all of them being in the short one,
/// which then counts. One that is gone has too few as well; that shows in the newest being older than the interval, which is
/// then measured until that one: samples that stopped coming are no sign of a longer interval.
pub(crate) fn scrape_interval(group: &Group) -> Option<Duration> {
    let (long, short) = (group.number(Part::ScrapesLong)?, group.number(Part::ScrapesShort));
    let age = group.point(Part::Newest).map_or(0.0, age);
    let per = |over: Duration, samples: f64| {
        let seconds = match over.as_secs_f64() {
            over if age > over / samples => (over - age) / samples,
            over => over / samples,
        };
        let measured = samples >= 2.0 && seconds > 0.0;
        measured
            .then(|| Duration::try_from_secs_f64(seconds).ok())
            .flatten()
    };
    match short {
        Some(short) if is_young(group) => per(SHORT_COUNT, short),
        _ => per(LONG_COUNT, long),
    }
}

/// Whether the series is so young that its scrape interval comes from the short count. Until it fills that, the interval
/// is measured too long.
pub(crate) fn is_young(group: &Group) -> bool {
    let counts = (group.number(Part::ScrapesLong), group.number(Part::ScrapesShort));
    matches!(counts, (Some(long), Some(short)) if long < 2.5 * short)
}

/// What is wrong with a window that holds fewer than four scrapes. A tenth of it is chance: how often a series is scraped is
/// counted, and one that is young, whose interval is measured too long, shows nothing.
pub(crate) fn too_few_scrapes(window: Duration, group: &Group) -> Option<String> {
    let interval = scrape_interval(group).filter(|_| !is_young(group))?;
    let least = interval.saturating_mul(FEWEST_SCRAPES);
    let seconds = |time: Duration| promql::duration(Duration::from_secs(time.as_secs_f64().ceil() as u64));
    (least > window.saturating_add(window / 10)).then(|| {
        format!(
            "the window is shorter than four scrapes, which are {} apart: give it {} or more",
            seconds(interval),
            seconds(least)
        )
    })
}

/// Whether the series is still scraped: its newest sample is at most two scrapes old.
pub(crate) fn is_scraped(group: &Group) -> bool {
    let (newest, interval) = (group.point(Part::Newest), scrape_interval(group));
    matches!((newest, interval), (Some(newest), Some(interval)) if age(newest) <= 2.0 * interval.as_secs_f64())
}

/// How old a sample is, in seconds, by the time of its evaluation.
fn age(newest: &Point) -> f64 {
    (newest.time - newest.value).max(0.0)
}

/// How old a sample may be, the source's offset included.
pub(crate) fn stale_after(interval: Option<Duration>, offset: Duration) -> Duration {
    match interval {
        Some(interval) => SMALLEST_LIMIT.max(interval.saturating_mul(4).saturating_add(offset)),
        None => UNMEASURED_LIMIT.saturating_add(offset),
    }
}

/// Over how long a gauge's largest value is taken: two scrapes.
pub(crate) fn two_scrapes(interval: Option<Duration>) -> Duration {
    interval.map_or(UNMEASURED_LIMIT, |interval| {
        whole_seconds(interval.saturating_mul(2))
    })
}

/// How long a series without new samples counts.
pub(crate) fn linger(interval: Option<Duration>) -> Duration {
    whole_seconds(stale_after(interval, Duration::ZERO))
}

/// Rounded up, so that a measured interval that trembles does not change the text of the query.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs() + u64::from(duration.subsec_nanos() > 0))
}

/// The time of the newest sample in milliseconds on the server's clock, when it is young enough.
pub(crate) fn newest(group: &Group, offset: Duration) -> Result<i64, Unknown> {
    sample_time(group, Part::Newest, "newest", offset)
}

/// The time of the oldest sample, when every series is young enough.
pub(crate) fn oldest(group: &Group, offset: Duration) -> Result<i64, Unknown> {
    sample_time(group, Part::Oldest, "oldest", offset)
}

fn sample_time(group: &Group, part: Part, which: &str, offset: Duration) -> Result<i64, Unknown> {
    let stale = |message: String| Unknown::new(UnknownReason::Stale, message);
    let Some(point) = group.point(part) else {
        return Err(stale(
            "no series has a sample now; has its target gone, or its scraping stopped?".to_owned(),
        ));
    };
    if !point.value.is_finite() || !point.time.is_finite() {
        return Err(Unknown::new(
            UnknownReason::NotANumber,
            "the source tells no time of its samples",
        ));
    }
    let age = age(point) + offset.as_secs_f64();
    let limit = stale_after(scrape_interval(group), offset);
    if age > limit.as_secs_f64() {
        return Err(stale(format!(
            "the {which} sample is {age:.0} s old, more than {:.0} s; has its target gone, or its scraping stopped?",
            limit.as_secs_f64()
        )));
    }
    Ok(millis(point.value))
}

/// Whether a counter falls as often as it does when several processes answer one scrape.
pub(crate) fn stable(group: &Group) -> Result<(), Unknown> {
    match group.number(Part::Unstable) {
        Some(share) if share > UNSTABLE_SHARE => Err(Unknown::new(
            UnknownReason::CounterUnstable,
            format!(
                "after {:.0} % of its samples the counter has fallen: several processes seem to answer one scrape in turn; \
                 give each its own port or label",
                share * 100.0
            ),
        )),
        _ => Ok(()),
    }
}

/// Seconds since the epoch as whole milliseconds.
// Times that a server may tell fit by far; `as` saturates for the rest.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn millis(seconds: f64) -> i64 {
    (seconds * 1000.0).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(long: f64, short: Option<f64>, age: f64) -> Group {
        let now = 1_700_000_000.0;
        let short = short.map(|short| (Part::ScrapesShort, None, now, short));
        Group::of(
            [
                (Part::ScrapesLong, None, now, long),
                (Part::Newest, None, now, now - age),
            ]
            .into_iter()
            .chain(short),
        )
    }

    #[test]
    fn a_window_holds_four_scrapes() {
        let told = |window: u64, samples: f64| {
            too_few_scrapes(
                Duration::from_secs(window),
                &group(samples, Some(samples / 5.0), 0.0),
            )
        };
        // Scraped every 30 s: four scrapes are 2 min.
        assert_eq!(
            told(60, 10.0).as_deref(),
            Some("the window is shorter than four scrapes, which are 30s apart: give it 2m or more")
        );
        assert_eq!(told(120, 10.0), None);
        // One sample of twenty is missing: 15.8 s, of which four are 63 s.
        assert_eq!((told(60, 20.0), told(60, 19.0)), (None, None));
        // A series that began a minute ago, and one of which nothing is known.
        assert_eq!(
            too_few_scrapes(Duration::from_secs(60), &group(2.0, Some(2.0), 0.0)),
            None
        );
        assert_eq!(too_few_scrapes(Duration::from_secs(60), &Group::default()), None);
    }

    fn seconds(group: &Group) -> Option<f64> {
        scrape_interval(group).map(|interval| interval.as_secs_f64())
    }

    #[test]
    fn the_scrape_interval_follows_from_the_number_of_samples() {
        assert_eq!(seconds(&group(20.0, Some(4.0), 0.0)), Some(15.0));
        assert_eq!(seconds(&group(5.0, Some(1.0), 0.0)), Some(60.0));
        assert_eq!(seconds(&group(2.0, None, 0.0)), Some(150.0));
        assert_eq!(seconds(&group(1.0, Some(1.0), 0.0)), None);
        assert_eq!(seconds(&Group::default()), None);
    }

    #[test]
    fn a_young_series_is_measured_over_the_short_count() {
        // 45 s old, scraped every 15 s: three samples, all of them in the last minute; 100 s by the long count.
        assert_eq!(seconds(&group(3.0, Some(3.0), 0.0)), Some(20.0));
    }

    #[test]
    fn samples_that_stopped_coming_make_no_longer_interval() {
        // Scraped every 15 and 30 s, gone for four and for two and a half minutes: what is left of five minutes tells.
        assert_eq!(seconds(&group(4.0, None, 240.0)), Some(15.0));
        assert_eq!(seconds(&group(5.0, None, 150.0)), Some(30.0));
        for (left, age) in [(4.0, 240.0), (5.0, 150.0), (2.0, 270.0)] {
            let unknown = newest(&group(left, None, age), Duration::ZERO).unwrap_err();
            assert_eq!(unknown.reason, UnknownReason::Stale);
        }
    }

    #[test]
    fn a_sample_is_stale_after_the_larger_of_a_minute_and_four_scrapes_with_the_offset() {
        let s = Duration::from_secs;
        assert_eq!(stale_after(Some(s(15)), s(0)), s(60));
        assert_eq!(stale_after(Some(s(30)), s(0)), s(120));
        assert_eq!(stale_after(Some(s(5)), s(300)), s(320));
        assert_eq!(stale_after(None, s(0)), s(120));
    }

    #[test]
    fn age_is_that_of_the_sample_not_of_the_answer() {
        assert!(newest(&group(20.0, Some(4.0), 59.0), Duration::ZERO).is_ok());
        let unknown = newest(&group(20.0, Some(4.0), 61.0), Duration::ZERO).unwrap_err();
        assert_eq!(unknown.reason, UnknownReason::Stale);
        assert!(unknown.message.contains("61 s old"));
        assert!(newest(&group(6.0, None, 100.0), Duration::ZERO).is_ok());
        assert_eq!(
            newest(&Group::default(), Duration::ZERO).unwrap_err().reason,
            UnknownReason::Stale
        );
    }

    #[test]
    fn one_counter_answered_by_several_workers_is_unstable_and_a_restart_is_not() {
        let with = |share| Group::of([(Part::Unstable, None, 0.0, share)]);
        assert_eq!(
            stable(&with(0.5)).unwrap_err().reason,
            UnknownReason::CounterUnstable
        );
        assert!(stable(&with(0.1)).is_ok());
        assert!(stable(&Group::default()).is_ok());
    }
}
