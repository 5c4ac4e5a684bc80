//! Plays a case: all ways at the same time, each with programs of its own and the same load.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Result, ensure};
use futures::future::{join_all, try_join_all};
use serde::Serialize;
use tokio::time::{Instant, sleep, sleep_until};

use crate::figures::{
    Figures, Query, Sample, most_attempts_beyond, most_attempts_per_call, most_calls_in_a_second,
};
use crate::lane::{Lane, Load};
use crate::progress::Progress;
use crate::scenario::{Injection, Scenario};
use crate::stage::{BUDGET_PERCENT, BURST, Said, Stage};
use crate::way::Way;

/// Until `tower::hedge` has a full period of latencies, and Hedgerow its ramp behind it.
const WARM_UP: Duration = Duration::from_secs(20);
/// Hedgerow must be at its full budget by then.
const WARM_WITHIN: Duration = Duration::from_secs(60);
/// Often enough to see a queue, seldom enough to cost little.
const EVERY: Duration = Duration::from_millis(500);

/// What a case showed.
#[derive(Debug, Serialize)]
pub(crate) struct Played {
    /// The case.
    pub scenario: Scenario,
    /// The stretches of time that were measured.
    pub stretches: Vec<Stretch>,
    /// What the operator said while it was measured: reasons and diagnoses.
    pub said: BTreeSet<String>,
    /// Whether Hedgerow was hedging when the first stretch ended.
    pub hedging: bool,
    /// Reasons for which the operator says that hedging pays less than it could (`Effective=False`), each with the seconds from
    /// the first query until it was said.
    pub ineffective: BTreeMap<String, f64>,
    /// What Hedgerow spent.
    pub spent: Spent,
}

/// What was spent, against what the budget promises.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Spent {
    /// The most attempts per call, from the first call to any moment.
    pub most_attempts_per_call: Option<f64>,
    /// The most attempts beyond those that the calls of a stretch of time pay for, of all stretches between two looks.
    pub most_attempts_beyond: Option<f64>,
    /// What the bucket of the one front end can have held when a stretch began.
    pub saved: Option<f64>,
}

impl Spent {
    pub(crate) fn of(samples: &[(f64, Sample)]) -> Self {
        let share = BUDGET_PERCENT / 100.0;
        Self {
            most_attempts_per_call: most_attempts_per_call(samples),
            most_attempts_beyond: most_attempts_beyond(samples, 1.0 + share),
            saved: most_calls_in_a_second(samples).map(|calls| BURST.max(share * calls)),
        }
    }
}

/// A stretch of time.
#[derive(Debug, Serialize)]
pub(crate) struct Stretch {
    /// `during` or `after`.
    pub title: &'static str,
    /// The figures of each way.
    pub ways: Vec<Row>,
}

/// The figures of a way.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The way.
    pub way: Way,
    /// Its figures.
    #[serde(flatten)]
    pub figures: Figures,
}

impl Stretch {
    /// The figures of a way.
    pub(crate) fn of(&self, way: Way) -> Option<&Figures> {
        self.ways
            .iter()
            .find(|row| row.way == way)
            .map(|row| &row.figures)
    }
}

/// A stretch of time, in Unix seconds.
struct Span {
    title: &'static str,
    from: f64,
    to: f64,
}

/// Plays it.
pub(crate) async fn play(
    stage: &Stage,
    scenario: Scenario,
    load: Load,
    progress: &Progress,
) -> Result<Played> {
    progress.say(&format!("{}: {}", scenario.name(), scenario.what()));
    progress.now("starting servers and front ends");
    let starting = Way::ALL.map(|way| Lane::start(stage, scenario, way, load.seed));
    let mut lanes = try_join_all(starting).await?;
    stage.apply(scenario).await?;
    for lane in &mut lanes {
        lane.load(load)?;
    }
    let mut watch = Watch::new(stage, scenario, &lanes, progress);
    let watched = tokio::select! {
        watched = watch.all() => watched?,
        failed = bouts(&lanes, scenario) => match failed? {},
    };

    let (samples, ineffective) = (watch.samples, watch.ineffective);
    progress.now("waiting for the last answers");
    let queries = try_join_all(lanes.into_iter().map(Lane::finish)).await?;
    let hedgerow = Way::ALL.iter().position(|way| *way == Way::Hedgerow);
    Ok(Played {
        scenario,
        stretches: watched
            .spans
            .iter()
            .map(|span| stretch(span, &queries, &samples))
            .collect(),
        said: watched.said,
        hedging: watched.hedging,
        ineffective,
        spent: Spent::of(hedgerow.map_or(&[], |lane| &samples[lane])),
    })
}

/// What was seen of a case from its first query to its last.
struct Watched {
    spans: Vec<Span>,
    /// What the operator said in the first span, and whether clients hedged at its end.
    said: BTreeSet<String>,
    hedging: bool,
}

fn stretch(span: &Span, queries: &[Vec<Query>], samples: &[Vec<(f64, Sample)>]) -> Stretch {
    let within = |at: f64| (span.from..=span.to).contains(&at);
    let row = |(lane, way): (usize, &Way)| {
        let queries: Vec<_> = queries[lane]
            .iter()
            .filter(|query| within(query.due))
            .copied()
            .collect();
        let samples: Vec<_> = samples[lane]
            .iter()
            .filter(|(at, _)| within(*at))
            .map(|(_, sample)| *sample)
            .collect();
        Row {
            way: *way,
            figures: Figures::new(&queries, &samples),
        }
    };
    Stretch {
        title: span.title,
        ways: Way::ALL.iter().enumerate().map(row).collect(),
    }
}

/// Disturbs the servers of all ways.
async fn disturb(lanes: &[Lane], how: &str) -> Result<()> {
    try_join_all(lanes.iter().map(|lane| lane.disturb(how))).await?;
    Ok(())
}

/// Disturbs the servers of all ways again and again, if the case does, for as long as it is polled.
async fn bouts(lanes: &[Lane], scenario: Scenario) -> Result<Infallible> {
    let Injection::Bouts { how, lasts, every } = scenario.injection() else {
        return std::future::pending().await;
    };
    loop {
        let next = Instant::now() + every;
        disturb(lanes, how).await?;
        sleep(lasts).await;
        disturb(lanes, scenario.usual()).await?;
        sleep_until(next).await;
    }
}

/// Looks at all ways, again and again.
struct Watch<'a> {
    stage: &'a Stage,
    scenario: Scenario,
    lanes: &'a [Lane],
    progress: &'a Progress,
    /// Of each lane, with the time in Unix seconds.
    samples: Vec<Vec<(f64, Sample)>>,
    said: Said,
    /// What the operator said in this stretch of time.
    heard: BTreeSet<String>,
    /// When the first query came, in Unix seconds.
    began: f64,
    /// See [`Played::ineffective`].
    ineffective: BTreeMap<String, f64>,
}

impl<'a> Watch<'a> {
    fn new(stage: &'a Stage, scenario: Scenario, lanes: &'a [Lane], progress: &'a Progress) -> Self {
        Self {
            stage,
            scenario,
            lanes,
            progress,
            samples: vec![Vec::new(); lanes.len()],
            said: Said::default(),
            heard: BTreeSet::new(),
            began: now(),
            ineffective: BTreeMap::new(),
        }
    }

    /// Watches the whole case.
    async fn all(&mut self) -> Result<Watched> {
        self.warm_up().await?;
        let (lanes, scenario) = (self.lanes, self.scenario);
        let injected = async {
            match scenario.injection() {
                Injection::Once(how) => disturb(lanes, how).await,
                Injection::Bouts { .. } => Ok(()),
            }
        };
        let mut spans = vec![self.stretch("during", scenario.lasts(), injected).await?];
        let (said, hedging) = (self.heard.clone(), self.said.state != "NotHedging");
        if let Some((wait, measure)) = scenario.aftermath() {
            disturb(lanes, scenario.usual()).await?;
            self.stretch("calm", wait, async { Ok(()) }).await?;
            spans.push(self.stretch("after", measure, async { Ok(()) }).await?);
        }
        Ok(Watched { spans, said, hedging })
    }

    async fn warm_up(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < WARM_UP || self.said.state != "Hedging" {
            ensure!(
                began.elapsed() < WARM_WITHIN,
                "Hedgerow did not reach its full budget in {WARM_WITHIN:?}; the operator says {:?}",
                self.said
            );
            self.look("warming up").await;
            sleep(EVERY).await;
        }
        Ok(())
    }

    /// Watches for `time`, with `injection` at work.
    async fn stretch(
        &mut self,
        title: &'static str,
        time: Duration,
        injection: impl Future<Output = Result<()>>,
    ) -> Result<Span> {
        self.heard.clear();
        let (from, end) = (now(), Instant::now() + time);
        let watching = async {
            while Instant::now() < end {
                self.look(title).await;
                sleep(EVERY).await;
            }
            self.look(title).await;
            anyhow::Ok(())
        };
        let injected = async {
            injection.await?;
            // Done: the watch ends the stretch.
            std::future::pending().await
        };
        tokio::select! {
            watched = watching => watched,
            failed = injected => failed,
        }?;
        Ok(Span {
            title,
            from,
            to: now(),
        })
    }

    /// A look that fails leaves a gap, not a zero.
    async fn look(&mut self, title: &str) {
        let looks = join_all(self.lanes.iter().map(Lane::look));
        let (looks, said) = tokio::join!(looks, self.stage.said(self.scenario));
        for (samples, look) in self.samples.iter_mut().zip(looks) {
            samples.extend(look.ok().map(|sample| (now(), sample)));
        }
        if let Ok(said) = said {
            self.heard.extend(said.reasons.iter().cloned());
            if let Some(reason) = &said.ineffective {
                let after = now() - self.began;
                self.ineffective.entry(reason.clone()).or_insert(after);
            }
            self.said = said;
        }
        self.progress.now(&format!(
            "{} {title}: {} {}   {}",
            self.scenario.name(),
            self.said.state,
            self.said.delay.as_deref().unwrap_or_default(),
            self.said.reasons.join(", "),
        ));
    }
}

fn now() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs_f64()
}
