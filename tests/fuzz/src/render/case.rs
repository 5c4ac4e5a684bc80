//! An input: what is ordered, and the base.

use std::time::Duration;

use hedgerow_config::{
    CassandraTable, DataStaxProfile, DotnetClient, EnvoyCluster, Form, GrpcMethod, HdfsClient, KitexMethod,
    Limits, LokiClient, Part, PropertiesPrefix, TempoClient,
};
use hedgerow_tuner::{Hedging, Orders, Reason};

/// Targets that one document tells of at most.
const MOST_PARTS: usize = 4;

/// A form that documents have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    GrpcServiceConfig,
    EnvoyRoute,
    DotnetHedging,
    Kitex,
    DataStax,
    Cassandra,
    Hdfs,
    Loki,
    Tempo,
    Properties,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "GrpcServiceConfig" => Self::GrpcServiceConfig,
            "EnvoyRoute" => Self::EnvoyRoute,
            "DotnetHedging" => Self::DotnetHedging,
            "Kitex" => Self::Kitex,
            "DataStax" => Self::DataStax,
            "Cassandra" => Self::Cassandra,
            "Hdfs" => Self::Hdfs,
            "Loki" => Self::Loki,
            "Tempo" => Self::Tempo,
            "Properties" => Self::Properties,
            _ => return None,
        })
    }
}

/// A document to render.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) kind: Kind,
    pub(super) parts: Vec<Line<'a>>,
    /// `None` where nothing follows the empty line.
    pub(super) base: Option<&'a str>,
}

/// What is ordered of one target, and its place.
#[derive(Debug)]
pub(super) struct Line<'a> {
    reason: Reason,
    pub(super) delay_ms: f64,
    pub(super) percent: f64,
    pub(super) max_attempts: u8,
    deadline_ms: Option<u64>,
    place: Vec<&'a str>,
}

impl Line<'_> {
    /// Whether it is ordered to hedge.
    pub(super) fn hedges(&self) -> bool {
        matches!(self.reason, Reason::Tuned | Reason::Ramping)
    }
}

impl<'a> Case<'a> {
    /// Reads one. A line is `Tuned 512 10 2 1000 search.Shard Read`: reason, delay in milliseconds, percent, attempts,
    /// deadline in milliseconds or `-`, and the words of the place.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let (head, base) = text.split_once("\n\n").unwrap_or((text, ""));
        let mut lines = head.lines();
        let kind = Kind::named(lines.next()?.trim())?;
        let parts = lines.take(MOST_PARTS).map(line).collect::<Option<Vec<_>>>()?;
        let base = (!base.is_empty()).then_some(base);
        Some(Self { kind, parts, base })
    }

    /// Whether the document is the base with changes.
    pub(super) fn is_over_its_base(&self) -> bool {
        let takes_one = matches!(
            self.kind,
            Kind::GrpcServiceConfig | Kind::EnvoyRoute | Kind::DotnetHedging | Kind::Kitex
        );
        takes_one && self.base.is_some()
    }

    /// The form to render: as ordered, or with everything off.
    pub(super) fn form(&self, off: bool) -> Form {
        let word = |words: &[&str], at: usize| words.get(at).map(|word| (*word).to_owned());
        let named = |words: &[&str], at: usize| word(words, at).unwrap_or_default();
        let number = |words: &[&str]| words.first().and_then(|word| word.parse().ok());
        match self.kind {
            Kind::GrpcServiceConfig => Form::GrpcServiceConfig(self.parts(off, |words| GrpcMethod {
                service: named(words, 0),
                method: word(words, 1),
            })),
            Kind::EnvoyRoute => Form::EnvoyRoute(self.parts(off, |words| EnvoyCluster {
                cluster: named(words, 0),
            })),
            Kind::DotnetHedging => Form::DotnetHedging(self.parts(off, |words| DotnetClient {
                client: named(words, 0),
            })),
            Kind::Kitex => Form::Kitex(self.parts(off, |words| KitexMethod {
                client: named(words, 0),
                server: named(words, 1),
                method: named(words, 2),
            })),
            Kind::DataStax => Form::DataStax(self.parts(off, |words| DataStaxProfile {
                profile: word(words, 0),
            })),
            Kind::Cassandra => Form::Cassandra(self.parts(off, |words| CassandraTable {
                keyspace: named(words, 0),
                table: named(words, 1),
            })),
            Kind::Hdfs => Form::Hdfs(self.parts(off, |words| HdfsClient {
                threads: number(words),
            })),
            Kind::Loki => Form::Loki(self.parts(off, |words| LokiClient {
                max_per_second: number(words),
            })),
            Kind::Tempo => Form::Tempo(self.parts(off, |words| TempoClient {
                max_per_second: number(words),
            })),
            Kind::Properties => Form::Properties(self.parts(off, |words| PropertiesPrefix {
                prefix: word(words, 0),
            })),
        }
    }

    fn parts<P>(&self, off: bool, place: impl Fn(&[&str]) -> P) -> Vec<Part<P>> {
        let part = |(at, line): (usize, &Line<'_>)| Part {
            target: format!("target-{at}"),
            orders: Orders {
                hedging: Some(Hedging {
                    delay_ms: line.delay_ms,
                    min_remaining_ms: 150.0,
                    percent: line.percent,
                    min_per_second: 0.0,
                }),
                reason: if off { Reason::Saturated } else { line.reason },
            },
            limits: Limits {
                deadline: line.deadline_ms.map(Duration::from_millis),
                max_attempts: line.max_attempts,
                max_concurrent: 100,
            },
            place: place(&line.place),
        };
        self.parts.iter().enumerate().map(part).collect()
    }
}

fn line(text: &str) -> Option<Line<'_>> {
    let mut words = text.split(' ');
    let reason = words.next()?;
    Some(Line {
        reason: *Reason::ALL.iter().find(|known| known.as_str() == reason)?,
        delay_ms: words.next()?.parse().ok()?,
        percent: words.next()?.parse().ok()?,
        max_attempts: words.next()?.parse().ok()?,
        deadline_ms: words.next()?.parse().ok(),
        place: words.collect(),
    })
}
