//! The query that measures something for many label sets at once.
//!
//! A query has several parts, each tagged with its name and joined by `or`, so that all that one reading needs comes
//! from one evaluation: buckets, count and sum cannot disagree by a scrape, and there is one request, not six.

use std::time::Duration;

use crate::measure::{LONG_COUNT, Measure, Part, SHORT_COUNT};
use crate::plan::{Batch, Family, merge};
use crate::promql;

/// The label that tells the parts of an answer apart.
pub(crate) const TAG: &str = "hedgerow_part";

/// How the series of a part are told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// One value per label set, and per value of the labels in [`Clause::also`].
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
    /// The labels by which it is grouped beside those of the set.
    pub(crate) also: Vec<String>,
    /// Its PromQL, without the tag.
    text: String,
}

/// The parts of the query for a batch.
pub(crate) fn clauses(batch: &Batch, replica: Option<&str>) -> Vec<Clause> {
    let writer = Writer::new(batch, replica);
    match &batch.measure {
        Measure::Histogram { window, outcome } => writer.histogram(*window, outcome.as_deref()),
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

    /// The same with one more matcher.
    fn narrowed(&self, matcher: String) -> Self {
        let narrowed =
            |matchers: &Vec<String>| [matchers.as_slice(), std::slice::from_ref(&matcher)].concat();
        Self {
            selectors: self.selectors.iter().map(narrowed).collect(),
            ..*self
        }
    }

    /// Classic buckets and native histograms side by side: a metric is of one kind, and its other names match nothing.
    fn histogram(&self, window: Duration, outcome: Option<&str>) -> Vec<Clause> {
        let range = promql::duration(window);
        let increase = |series: &str| format!("increase({series}[{range}])");
        let bound = self.beside([Some("le")]);
        let bound_and_outcome = self.beside([Some("le"), outcome]);
        let outcome = self.beside([outcome]);
        let mut clauses = vec![
            self.total(Part::Buckets, "sum", &bound_and_outcome, "_bucket", increase),
            // Counted over the increases, so that exactly the series that were added up are counted.
            self.total(Part::Layout, "count", &bound, "_bucket", increase),
            self.total(Part::Count, "sum", &outcome, "_count", increase),
            self.total(Part::Sum, "sum", &outcome, "_sum", increase),
        ];
        // Every classic histogram has this bucket and each call is in it, while `_count` may be dropped or relabelled.
        let whole = self.narrowed(promql::is_one_of("le", &["+Inf", "Inf", "inf"]));
        clauses.push(whole.unstable("_bucket", &range));
        clauses.extend(whole.freshness("_bucket"));
        clauses.push(self.native(&outcome, increase));
        let mut native = vec![self.unstable("", &range)];
        native.extend(self.freshness(""));
        clauses.extend(native.into_iter().map(|clause| Clause {
            part: clause.part.of_native(),
            ..clause
        }));
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
            self.total(Part::Value, "sum", &[], "", |series| {
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
        let metric = family.metric.as_str();
        let (buckets, calls) = (format!("{metric}_bucket"), format!("{metric}_count"));
        let either = promql::is_one_of("__name__", &[metric, &buckets]);
        let named = |matchers: &[String]| {
            if histogram {
                promql::selector("", &[std::slice::from_ref(&either), matchers].concat())
            } else {
                promql::selector(metric, matchers)
            }
        };
        let within =
            |matcher: Option<String>| -> Vec<_> { enforced(family).into_iter().chain(matcher).collect() };
        let clause = |part, grouping, text| Clause {
            part,
            grouping,
            also: Vec::new(),
            text,
        };
        let here = self.each(|matchers| format!("count{}({})", self.by(&[]), named(matchers)));
        let count = |matcher| format!("count({})", named(&within(matcher)));
        let mut clauses = vec![
            clause(Part::Here, Grouping::Set, here),
            clause(Part::Metric, Grouping::All, count(None)),
        ];
        for (place, name) in family.names.iter().enumerate() {
            let mut values: Vec<_> = batch.sets.iter().map(|set| set[place].as_str()).collect();
            values.sort_unstable();
            values.dedup();
            let series = named(&within(Some(promql::is_one_of(name, &values))));
            clauses.push(clause(
                Part::Label(place),
                Grouping::One(place),
                format!("count by ({name}) ({series})"),
            ));
        }
        for (place, requirement) in family.requirements.iter().enumerate() {
            let text = count(Some(promql::requirement(requirement)));
            clauses.push(clause(Part::Requirement(place), Grouping::All, text));
        }
        if histogram {
            let all = |part, name: &str, which: &str| {
                let series = promql::selector(name, &within(None));
                clause(part, Grouping::All, format!("count({series}{which})"))
            };
            clauses.extend([
                all(Part::Classic, &buckets, ""),
                all(Part::CountSeries, &calls, ""),
                all(Part::Bare, metric, ""),
                // Of a comparison with a number only numbers are left, and everything differs from NaN.
                all(Part::Numbers, metric, " != NaN"),
            ]);
            let percentiles = |part, which: &str| {
                let text = self.each(|matchers| {
                    let matchers = [matchers, &["quantile!=\"\"".to_owned()]].concat();
                    format!(
                        "count{}({}{which})",
                        self.by(&[]),
                        promql::selector(metric, &matchers)
                    )
                });
                clause(part, Grouping::Set, text)
            };
            clauses.push(percentiles(Part::Percentiles, ""));
            clauses.push(percentiles(Part::BusyPercentiles, " != 0"));
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
            also: Vec::new(),
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
            also: Vec::new(),
            text: self.united(suffix, |series| {
                format!("{operator}{}({})", self.by(&[]), expression(series))
            }),
        }
    }

    /// A sum or count. Each member of an HA pair sees every call, so of their totals the largest counts.
    fn total(
        &self,
        part: Part,
        operator: &str,
        also: &[&str],
        suffix: &str,
        expression: impl Fn(&str) -> String,
    ) -> Clause {
        let text = self.united(suffix, |series| {
            let expression = expression(series);
            match self.replica {
                None => format!("{operator}{}({expression})", self.by(also)),
                Some(replica) => format!(
                    "max{}({operator}{}({expression}))",
                    self.by(also),
                    self.by(&[also, &[replica]].concat())
                ),
            }
        });
        Clause {
            part,
            grouping: Grouping::Set,
            also: also.iter().map(|&label| label.to_owned()).collect(),
            text,
        }
    }

    /// The sum of native histograms. PromQL takes no largest of them: each member of an HA pair comes back.
    fn native(&self, also: &[&str], expression: impl Fn(&str) -> String) -> Clause {
        let also: Vec<&str> = also.iter().copied().chain(self.replica).collect();
        Clause {
            part: Part::Native,
            grouping: Grouping::Set,
            text: self.united("", |series| {
                format!("sum{}({})", self.by(&also), expression(series))
            }),
            also: also.into_iter().map(str::to_owned).collect(),
        }
    }

    /// `expression` of each selector, united.
    fn united(&self, suffix: &str, expression: impl Fn(&str) -> String) -> String {
        let name = format!("{}{suffix}", self.family.metric);
        self.each(|matchers| expression(&promql::selector(&name, matchers)))
    }

    /// `expression` of each selector's matchers, united.
    fn each(&self, expression: impl Fn(&[String]) -> String) -> String {
        let all: Vec<_> = self
            .selectors
            .iter()
            .map(|matchers| expression(matchers))
            .collect();
        all.join(" or ")
    }

    /// These labels, without those by which is grouped anyway.
    fn beside<'b, const N: usize>(&self, labels: [Option<&'b str>; N]) -> Vec<&'b str> {
        let grouped = |label: &&str| self.family.names.iter().any(|name| name == label);
        labels
            .into_iter()
            .flatten()
            .filter(|label| !grouped(label))
            .collect()
    }

    /// The grouping clause: these labels, then those asked for.
    fn by(&self, also: &[&str]) -> String {
        let labels: Vec<_> = also
            .iter()
            .copied()
            .chain(self.family.names.iter().map(String::as_str))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Operator, Requirement};

    fn batch(measure: Measure, names: &[&str], sets: &[&[&str]]) -> Batch {
        Batch {
            family: Family {
                metric: "read_seconds".into(),
                names: names.iter().map(|&name| name.to_owned()).collect(),
                requirements: vec![],
                enforced: None,
            },
            measure,
            sets: sets
                .iter()
                .map(|set| set.iter().map(|&value| value.to_owned()).collect())
                .collect(),
        }
    }

    /// The query's parts without their tags, by name.
    fn parts(batch: &Batch, replica: Option<&str>) -> Vec<String> {
        clauses(batch, replica)
            .into_iter()
            .map(|clause| format!("{}: {}", clause.part.tag(), clause.text))
            .collect()
    }

    const TEN_MINUTES: Duration = Duration::from_secs(600);

    #[test]
    fn the_query_of_a_histogram() {
        let batch = batch(
            Measure::Histogram {
                window: TEN_MINUTES,
                outcome: None,
            },
            &["index"],
            &[&["kb"], &["faq"]],
        );
        assert_eq!(
            parts(&batch, None),
            [
                r#"buckets: sum by (le, index) (increase(read_seconds_bucket{index=~"kb|faq"}[10m]))"#,
                r#"layout: count by (le, index) (increase(read_seconds_bucket{index=~"kb|faq"}[10m]))"#,
                r#"count: sum by (index) (increase(read_seconds_count{index=~"kb|faq"}[10m]))"#,
                r#"sum: sum by (index) (increase(read_seconds_sum{index=~"kb|faq"}[10m]))"#,
                r#"unstable: max by (index) ((resets(read_seconds_bucket{index=~"kb|faq",le=~"\\+Inf|Inf|inf"}[10m]) >= 3) / count_over_time(read_seconds_bucket{index=~"kb|faq",le=~"\\+Inf|Inf|inf"}[10m]))"#,
                r#"newest: max by (index) (timestamp(read_seconds_bucket{index=~"kb|faq",le=~"\\+Inf|Inf|inf"}))"#,
                r#"scrapes_long: max by (index) (count_over_time(read_seconds_bucket{index=~"kb|faq",le=~"\\+Inf|Inf|inf"}[5m]))"#,
                r#"scrapes_short: max by (index) (count_over_time(read_seconds_bucket{index=~"kb|faq",le=~"\\+Inf|Inf|inf"}[1m]))"#,
                r#"native: sum by (index) (increase(read_seconds{index=~"kb|faq"}[10m]))"#,
                r#"native_unstable: max by (index) ((resets(read_seconds{index=~"kb|faq"}[10m]) >= 3) / count_over_time(read_seconds{index=~"kb|faq"}[10m]))"#,
                r#"native_newest: max by (index) (timestamp(read_seconds{index=~"kb|faq"}))"#,
                r#"native_scrapes_long: max by (index) (count_over_time(read_seconds{index=~"kb|faq"}[5m]))"#,
                r#"native_scrapes_short: max by (index) (count_over_time(read_seconds{index=~"kb|faq"}[1m]))"#,
            ]
        );
    }

    #[test]
    fn what_is_counted_is_split_by_the_outcome_and_what_is_checked_is_not() {
        let measure = |outcome: &str| Measure::Histogram {
            window: TEN_MINUTES,
            outcome: Some(outcome.into()),
        };
        let split = parts(&batch(measure("status"), &["index"], &[&["kb"]]), Some("replica"));
        assert_eq!(
            split[0],
            r#"buckets: max by (le, status, index) (sum by (le, status, replica, index) (increase(read_seconds_bucket{index="kb"}[10m])))"#
        );
        assert_eq!(
            split[1],
            r#"layout: max by (le, index) (count by (le, replica, index) (increase(read_seconds_bucket{index="kb"}[10m])))"#
        );
        assert_eq!(
            split[2],
            r#"count: max by (status, index) (sum by (status, replica, index) (increase(read_seconds_count{index="kb"}[10m])))"#
        );
        // There is no largest of histograms.
        assert_eq!(
            split[8],
            r#"native: sum by (status, replica, index) (increase(read_seconds{index="kb"}[10m]))"#
        );
        assert!(
            split[9..].iter().all(|part| part.contains("max by (index) (")),
            "{split:?}"
        );
        // A label that is asked for anyway is named once.
        let split = parts(&batch(measure("index"), &["index"], &[&["kb"]]), None);
        assert!(split[0].starts_with("buckets: sum by (le, index) ("), "{split:?}");
    }

    #[test]
    fn the_parts_are_tagged_and_joined() {
        let batch = batch(Measure::Witness, &[], &[&[]]);
        let text = text(&clauses(&batch, None));
        assert!(text.starts_with(r#"label_replace(min(read_seconds), "hedgerow_part", "value", "", "")"#));
        assert_eq!(text.matches("\nor label_replace(").count(), 4);
    }

    #[test]
    fn of_a_pair_the_larger_total_counts_and_values_are_read_once() {
        let increase = batch(Measure::Increase { window: TEN_MINUTES }, &["app"], &[&["a"]]);
        assert_eq!(
            parts(&increase, Some("replica"))[0],
            r#"value: max by (app) (sum by (replica, app) (increase(read_seconds{app="a"}[10m])))"#
        );
        let over = Duration::from_secs(30);
        let gauge = batch(
            Measure::Gauge {
                over,
                linger: 2 * over,
            },
            &["app"],
            &[&["a"]],
        );
        assert_eq!(
            parts(&gauge, Some("replica"))[0],
            r#"value: max without (replica) ((max_over_time(read_seconds{app="a"}[30s]) or last_over_time(read_seconds{app="a"}[1m])))"#
        );
        let pinned = batch(Measure::Increase { window: TEN_MINUTES }, &["replica"], &[&["0"]]);
        assert_eq!(
            parts(&pinned, Some("replica"))[0],
            r#"value: sum by (replica) (increase(read_seconds{replica="0"}[10m]))"#
        );
    }

    #[test]
    fn sets_that_differ_in_two_labels_are_united_not_crossed() {
        let batch = batch(
            Measure::Increase { window: TEN_MINUTES },
            &["app", "zone"],
            &[&["a", "1"], &["b", "2"]],
        );
        assert_eq!(
            parts(&batch, None)[0],
            r#"value: sum by (app, zone) (increase(read_seconds{app="a",zone="1"}[10m])) or sum by (app, zone) (increase(read_seconds{app="b",zone="2"}[10m]))"#
        );
    }

    #[test]
    fn the_enforced_label_and_requirements_are_in_every_part() {
        let all = [
            Measure::Histogram {
                window: TEN_MINUTES,
                outcome: Some("status".into()),
            },
            Measure::Gauge {
                over: TEN_MINUTES,
                linger: TEN_MINUTES,
            },
            Measure::Rate {
                window: TEN_MINUTES,
                linger: TEN_MINUTES,
            },
            Measure::Increase { window: TEN_MINUTES },
            Measure::Witness,
            Measure::Presence { histogram: true },
            Measure::Presence { histogram: false },
        ];
        for measure in all {
            let presence = matches!(measure, Measure::Presence { .. });
            let mut batch = batch(measure, &["namespace"], &[&["other"]]);
            batch.family.enforced = Some(("namespace".into(), "helpdesk".into()));
            batch.family.requirements = vec![Requirement {
                key: "code".into(),
                operator: Operator::Exists,
                values: vec![],
            }];
            for clause in clauses(&batch, None) {
                let selectors = clause.text.matches('{').count();
                assert!(selectors > 0, "{}", clause.text);
                assert_eq!(
                    clause.text.matches(r#"namespace="helpdesk""#).count(),
                    selectors,
                    "{}",
                    clause.text
                );
                if !presence {
                    assert_eq!(
                        clause.text.matches(r#"code!="""#).count(),
                        selectors,
                        "{}",
                        clause.text
                    );
                }
            }
        }
    }
}
