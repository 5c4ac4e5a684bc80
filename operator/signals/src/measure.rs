//! What is measured of a metric, and the query that measures it for many label sets at once.
//!
//! A query has several parts, each tagged with its name and joined by `or`, so that all that one reading needs comes
//! from one evaluation: buckets, count and sum cannot disagree by a scrape, and there is one request, not six.

use std::time::Duration;

use crate::plan::{Batch, Family, merge};
use crate::promql;

/// The label that tells the parts of an answer apart.
pub(crate) const TAG: &str = "hedgerow_part";

/// Over how long scrapes are counted to measure the scrape interval.
pub(crate) const LONG_COUNT: Duration = Duration::from_secs(300);

/// The same for series that are too young for the long one.
pub(crate) const SHORT_COUNT: Duration = Duration::from_secs(60);

/// What is measured.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Measure {
    /// The distribution in a window, from classic buckets.
    Histogram {
        /// The window.
        window: Duration,
    },
    /// A gauge's largest value lately, per series.
    Gauge {
        /// Over two scrapes.
        over: Duration,
        /// A series without a sample in `over` counts with its last value for this long.
        linger: Duration,
    },
    /// A counter's rate per second, per series.
    Rate {
        /// The window.
        window: Duration,
        /// A series without a sample for this long does not count.
        linger: Duration,
    },
    /// A counter's increase, all series together.
    Increase {
        /// The window.
        window: Duration,
    },
    /// The smallest value and the oldest sample of all series.
    Witness,
    /// Which part of the selection has series at all.
    Presence {
        /// Whether buckets are looked for.
        histogram: bool,
    },
}

/// One part of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    /// The increase per bucket bound.
    Buckets,
    /// How many series each bucket bound has.
    Layout,
    /// The increase of `_count`.
    Count,
    /// The increase of `_sum`.
    Sum,
    /// The value.
    Value,
    /// The time of the newest sample.
    Newest,
    /// The time of the oldest sample.
    Oldest,
    /// Samples in [`LONG_COUNT`].
    ScrapesLong,
    /// Samples in [`SHORT_COUNT`].
    ScrapesShort,
    /// The share of samples that are smaller than the one before, where there are many.
    Unstable,
    /// How many series match.
    Here,
    /// How many series the metric has.
    Metric,
    /// How many have the value of the label at this place.
    Label(usize),
    /// How many meet the requirement at this place.
    Requirement(usize),
    /// How many series `_count` has.
    CountSeries,
    /// How many series have the name without a suffix.
    Bare,
    /// How many have the buckets of `VictoriaMetrics`.
    Vmrange,
}

impl Part {
    /// Its name in the answer.
    pub(crate) fn tag(self) -> String {
        match self {
            Self::Buckets => "buckets".into(),
            Self::Layout => "layout".into(),
            Self::Count => "count".into(),
            Self::Sum => "sum".into(),
            Self::Value => "value".into(),
            Self::Newest => "newest".into(),
            Self::Oldest => "oldest".into(),
            Self::ScrapesLong => "scrapes_long".into(),
            Self::ScrapesShort => "scrapes_short".into(),
            Self::Unstable => "unstable".into(),
            Self::Here => "here".into(),
            Self::Metric => "metric".into(),
            Self::Label(place) => format!("label_{place}"),
            Self::Requirement(place) => format!("requirement_{place}"),
            Self::CountSeries => "count_series".into(),
            Self::Bare => "bare".into(),
            Self::Vmrange => "vmrange".into(),
        }
    }
}

/// How the series of a part are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// One value per bucket bound and label set.
    Bounds,
    /// One value per label set.
    Set,
    /// Many values per label set.
    Series,
    /// One value per value of the label at this place.
    One(usize),
    /// One value for all.
    All,
}

/// One part of a query, and how its answer is grouped.
#[derive(Clone, Debug)]
pub(crate) struct Clause {
    /// Which part.
    pub(crate) part: Part,
    /// How its answer is grouped.
    pub(crate) grouping: Grouping,
    /// Its PromQL, without the tag.
    text: String,
}

/// The parts of the query for a batch.
pub(crate) fn clauses(batch: &Batch, replica: Option<&str>) -> Vec<Clause> {
    let writer = Writer::new(batch, replica);
    match &batch.measure {
        Measure::Histogram { window } => writer.histogram(*window),
        Measure::Gauge { over, linger } => writer.gauge(*over, *linger),
        Measure::Rate { window, linger } => writer.rate(*window, *linger),
        Measure::Increase { window } => writer.increase(*window),
        Measure::Witness => writer.witness(),
        Measure::Presence { histogram } => writer.presence(batch, *histogram),
    }
}

/// The query: its parts, tagged and joined.
pub(crate) fn text(clauses: &[Clause]) -> String {
    clauses
        .iter()
        .map(|clause| {
            format!(
                "label_replace({}, \"{TAG}\", \"{}\", \"\", \"\")",
                clause.text,
                clause.part.tag()
            )
        })
        .collect::<Vec<_>>()
        .join("\nor ")
}

/// Writes the parts of one batch's query.
struct Writer<'a> {
    family: &'a Family,
    /// The replica label to deduplicate on, unless the policy chose a replica itself.
    replica: Option<&'a str>,
    /// The matchers of each selector.
    selectors: Vec<Vec<String>>,
}

impl<'a> Writer<'a> {
    fn new(batch: &'a Batch, replica: Option<&'a str>) -> Self {
        let family = &batch.family;
        let common: Vec<String> = enforced(family)
            .into_iter()
            .chain(family.requirements.iter().map(promql::requirement))
            .collect();
        let selectors = merge(&family.names, &batch.sets)
            .iter()
            .map(|merged| {
                let labels = family.names.iter().enumerate().map(|(place, name)| {
                    let mut values: Vec<_> = merged.sets.iter().map(|set| set[place].as_str()).collect();
                    values.dedup();
                    promql::is_one_of(name, &values)
                });
                labels.chain(common.iter().cloned()).collect()
            })
            .collect();
        Self {
            family,
            replica: replica.filter(|replica| family.names.iter().all(|name| name != replica)),
            selectors,
        }
    }

    fn histogram(&self, window: Duration) -> Vec<Clause> {
        let range = promql::duration(window);
        let increase = |series: &str| format!("increase({series}[{range}])");
        let mut clauses = vec![
            self.total(Part::Buckets, "sum", Grouping::Bounds, "_bucket", increase),
            // Counted over the increases, so that exactly the series that were added up are counted.
            self.total(Part::Layout, "count", Grouping::Bounds, "_bucket", increase),
            self.total(Part::Count, "sum", Grouping::Set, "_count", increase),
            self.total(Part::Sum, "sum", Grouping::Set, "_sum", increase),
            self.unstable("_count", &range),
        ];
        clauses.extend(self.freshness("_count"));
        clauses
    }

    fn gauge(&self, over: Duration, linger: Duration) -> Vec<Clause> {
        let (range, longer) = (promql::duration(over), promql::duration(linger));
        let value = |series: &str| {
            let largest = format!("max_over_time({series}[{range}])");
            if linger > over {
                format!("({largest} or last_over_time({series}[{longer}]))")
            } else {
                largest
            }
        };
        let mut clauses = vec![self.per_series(value)];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn rate(&self, window: Duration, linger: Duration) -> Vec<Clause> {
        let (range, longer) = (promql::duration(window), promql::duration(linger));
        let mut clauses = vec![
            self.per_series(|series| {
                format!("(rate({series}[{range}]) and last_over_time({series}[{longer}]))")
            }),
            self.unstable("", &range),
        ];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn increase(&self, window: Duration) -> Vec<Clause> {
        let range = promql::duration(window);
        let mut clauses = vec![
            self.total(Part::Value, "sum", Grouping::Set, "", |series| {
                format!("increase({series}[{range}])")
            }),
            self.unstable("", &range),
        ];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn witness(&self) -> Vec<Clause> {
        let mut clauses = vec![
            self.extreme(Part::Value, "min", "", |series| series.to_owned()),
            self.extreme(Part::Oldest, "min", "", |series| format!("timestamp({series})")),
        ];
        clauses.extend(self.freshness(""));
        clauses
    }

    fn presence(&self, batch: &Batch, histogram: bool) -> Vec<Clause> {
        let family = self.family;
        let suffix = if histogram { "_bucket" } else { "" };
        let common: Vec<String> = enforced(family).into_iter().collect();
        let count_all = |part, suffix: &str, matcher: Option<String>| {
            let matchers: Vec<_> = common.iter().cloned().chain(matcher).collect();
            let series = promql::selector(&format!("{}{suffix}", family.metric), &matchers);
            Clause {
                part,
                grouping: Grouping::All,
                text: format!("count({series})"),
            }
        };
        let mut clauses = vec![
            Clause {
                part: Part::Here,
                grouping: Grouping::Set,
                text: self.united(suffix, |series| format!("count{}({series})", self.by(None, None))),
            },
            count_all(Part::Metric, suffix, None),
        ];
        for (place, name) in family.names.iter().enumerate() {
            let mut values: Vec<_> = batch.sets.iter().map(|set| set[place].as_str()).collect();
            values.sort_unstable();
            values.dedup();
            let matchers: Vec<_> = common
                .iter()
                .cloned()
                .chain([promql::is_one_of(name, &values)])
                .collect();
            let series = promql::selector(&format!("{}{suffix}", family.metric), &matchers);
            clauses.push(Clause {
                part: Part::Label(place),
                grouping: Grouping::One(place),
                text: format!("count by ({name}) ({series})"),
            });
        }
        for (place, requirement) in family.requirements.iter().enumerate() {
            let matcher = promql::requirement(requirement);
            clauses.push(count_all(Part::Requirement(place), suffix, Some(matcher)));
        }
        if histogram {
            clauses.push(count_all(Part::CountSeries, "_count", None));
            clauses.push(count_all(Part::Bare, "", None));
            clauses.push(count_all(Part::Vmrange, "_bucket", Some("vmrange!=\"\"".into())));
        }
        clauses
    }

    /// The newest sample, and how many there were.
    fn freshness(&self, suffix: &str) -> Vec<Clause> {
        let samples = |part, over| {
            self.extreme(part, "max", suffix, |series| {
                format!("count_over_time({series}[{}])", promql::duration(over))
            })
        };
        vec![
            self.extreme(Part::Newest, "max", suffix, |series| {
                format!("timestamp({series})")
            }),
            samples(Part::ScrapesLong, LONG_COUNT),
            samples(Part::ScrapesShort, SHORT_COUNT),
        ]
    }

    /// The share of samples after which a counter had fallen, where it fell three times or more.
    fn unstable(&self, suffix: &str, range: &str) -> Clause {
        self.extreme(Part::Unstable, "max", suffix, |series| {
            format!("(resets({series}[{range}]) >= 3) / count_over_time({series}[{range}])")
        })
    }

    /// One value per series.
    fn per_series(&self, expression: impl Fn(&str) -> String) -> Clause {
        let united = self.united("", expression);
        Clause {
            part: Part::Value,
            grouping: Grouping::Series,
            text: match self.replica {
                Some(replica) => format!("max without ({replica}) ({united})"),
                None => united,
            },
        }
    }

    /// A largest or smallest value per label set.
    fn extreme(
        &self,
        part: Part,
        operator: &str,
        suffix: &str,
        expression: impl Fn(&str) -> String,
    ) -> Clause {
        Clause {
            part,
            grouping: Grouping::Set,
            text: self.united(suffix, |series| {
                format!("{operator}{}({})", self.by(None, None), expression(series))
            }),
        }
    }

    /// A sum or count. Each member of an HA pair sees every call, so of their totals the largest counts.
    fn total(
        &self,
        part: Part,
        operator: &str,
        grouping: Grouping,
        suffix: &str,
        expression: impl Fn(&str) -> String,
    ) -> Clause {
        let bound = (grouping == Grouping::Bounds).then_some("le");
        let text = self.united(suffix, |series| {
            let expression = expression(series);
            match self.replica {
                None => format!("{operator}{}({expression})", self.by(bound, None)),
                Some(replica) => format!(
                    "max{}({operator}{}({expression}))",
                    self.by(bound, None),
                    self.by(bound, Some(replica))
                ),
            }
        });
        Clause { part, grouping, text }
    }

    /// `expression` of each selector, united.
    fn united(&self, suffix: &str, expression: impl Fn(&str) -> String) -> String {
        self.selectors
            .iter()
            .map(|matchers| {
                expression(&promql::selector(
                    &format!("{}{suffix}", self.family.metric),
                    matchers,
                ))
            })
            .collect::<Vec<_>>()
            .join(" or ")
    }

    /// The grouping clause: the labels asked for, a bucket's bound, a replica label.
    fn by(&self, bound: Option<&str>, replica: Option<&str>) -> String {
        let names = self.family.names.iter().map(String::as_str);
        let labels: Vec<_> = bound
            .filter(|bound| names.clone().all(|name| name != *bound))
            .into_iter()
            .chain(names.clone())
            .chain(replica)
            .collect();
        if labels.is_empty() {
            String::new()
        } else {
            format!(" by ({}) ", labels.join(", "))
        }
    }
}

fn enforced(family: &Family) -> Option<String> {
    family
        .enforced
        .as_ref()
        .map(|(name, value)| promql::is_one_of(name, &[value]))
}
