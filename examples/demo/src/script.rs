//! The phases, and what each must show.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_stage::{Expectation, NAMESPACE};
use hedgerow_tests::repository;
use tokio::time::{Instant, sleep};

use crate::observer::Observer;
use crate::record::{Record, Sample};
use crate::show::Show;
use crate::stage::Stage;

/// At 100 queries/s this is 4,500 queries: 14.9 % +- 0.5 % (one standard deviation).
const UNHEDGED: Duration = Duration::from_secs(45);
/// At 100 queries/s this is 6,000 queries: 0.80 % +- 0.12 %.
const TUNED: Duration = Duration::from_secs(60);
/// How much slower the replicas become. Enough to leave the hold band, and not so much that a hedge has no time to answer.
const DRIFT: f64 = 1.25;
/// Bulk jobs queued at each replica: 15 s of work, of which about 8 s above the line of 50.
const BULK_JOBS: u32 = 120;
/// A client that watches the API sees a document well within this; seconds.
const CLIENT_SEES: f64 = 1.0;
/// How long to look for hedges after the document said off.
const SETTLE: Duration = Duration::from_secs(5);

/// A demo that could not go on, and what it had shown until then.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// What was shown.
    pub expectations: Vec<Expectation>,
    /// Why it could not go on.
    pub why: anyhow::Error,
}

/// Plays every phase.
pub(crate) async fn play(
    stage: &Stage,
    observer: &Observer,
    show: &Show,
) -> Result<Vec<Expectation>, Interrupted> {
    let mut play = Play {
        stage,
        observer,
        show,
        expectations: Vec::new(),
    };
    match play.all().await {
        Ok(()) => Ok(play.expectations),
        Err(why) => Err(Interrupted {
            expectations: play.expectations,
            why,
        }),
    }
}

struct Play<'a> {
    stage: &'a Stage,
    observer: &'a Observer,
    show: &'a Show,
    expectations: Vec<Expectation>,
}

impl Play<'_> {
    async fn all(&mut self) -> Result<()> {
        self.unhedged().await?;
        self.tuned().await?;
        self.drift().await?;
        self.incident().await?;
        self.stop_by_hand().await
    }

    async fn unhedged(&mut self) -> Result<()> {
        self.begin(
            "unhedged",
            "No policy, no hedging. Two reads in a hundred take longer than the second that a query has.",
        );
        self.until("the front end answers queries", Duration::from_secs(20), |now| {
            now.queries > 0.0
        })
        .await?;
        let (from, to) = self.watch(UNHEDGED).await;
        // 1 - 0.98^8 = 14.9 %.
        self.expect(
            "unhedged",
            "queries that miss a section, %",
            "14.9",
            (12.5, 17.5),
            percent(to.miss_share_since(&from)),
            1,
        );
        Ok(())
    }

    async fn tuned(&mut self) -> Result<()> {
        self.begin("tuned", "kubectl apply -f examples/help-desk.yaml: off while warming up, then the ramp, then the tuned delay.");
        let applied = self.observer.seconds();
        let file = repository().join("examples/help-desk.yaml");
        self.kubectl(&[
            "apply",
            "--server-side",
            "-f",
            file.to_str().context("the clone's path is not UTF-8")?,
        ])
        .await?;
        let full = self
            .until_full(
                "hedging reaches its full budget",
                applied,
                Duration::from_secs(90),
            )
            .await?;
        self.expect(
            "tuned",
            "steps of the ramp (25, 50, 100 %)",
            "3",
            (3.0, 3.0),
            Some(self.steps_since(applied)),
            0,
        );
        let (from, to) = self.watch(TUNED).await;
        self.expect(
            "tuned",
            "delay, ms",
            "near 500",
            (425.0, 600.0),
            full.document.delay_ms,
            0,
        );
        // P(X > 1) x P(Y > 0.5) = 0.02 x 0.05 = 0.1 % per shard; 1 - 0.999^8 = 0.80 %.
        self.expect(
            "tuned",
            "queries that miss a section, %",
            "0.80",
            (0.3, 1.8),
            percent(to.miss_share_since(&from)),
            2,
        );
        self.expect(
            "tuned",
            "extra reads, %",
            "about 5",
            (3.0, 7.5),
            percent(to.hedge_share_since(&from)),
            1,
        );
        Ok(())
    }

    async fn drift(&mut self) -> Result<()> {
        self.begin("drift", "The replicas become a quarter slower; the delay follows as the window fills with the new latency.");
        self.stage.disturb(&format!("latency={DRIFT}")).await?;
        self.observer.drifted(DRIFT);
        let began = self.observer.seconds();
        let near = |now: &Sample| {
            now.at > began
                && now
                    .document
                    .delay_ms
                    .is_some_and(|delay| delay >= 0.9 * now.true_p95_ms)
        };
        let reached = self
            .until(
                "the delay is within a tenth of the new p95",
                Duration::from_secs(100),
                near,
            )
            .await?;
        self.expect(
            "drift",
            "seconds until the delay is within a tenth",
            "under 75",
            (0.0, 75.0),
            Some(reached.at - began),
            0,
        );
        self.watch(Duration::from_secs(10)).await;
        let delay = self.observer.latest().and_then(|now| now.document.delay_ms);
        self.expect("drift", "delay, ms", "near 625", (560.0, 780.0), delay, 0);
        Ok(())
    }

    async fn incident(&mut self) -> Result<()> {
        self.begin(
            "incident",
            "A reindexing job fills every replica's queue. Above its line hedging goes off by itself.",
        );
        self.stage.disturb(&format!("bulk={BULK_JOBS}")).await?;
        let signal = self.observer.seconds();
        self.off_since(
            "incident",
            "signal above its line",
            signal,
            "a scrape and an evaluation",
            6.0,
        )
        .await?;
        self.begin(
            "recovery",
            "The queue drains; after the cooldown the budget comes back at 25, 50, 100 %.",
        );
        let began = self.observer.seconds();
        self.until_full(
            "hedging is back at its full budget",
            began,
            Duration::from_secs(90),
        )
        .await?;
        self.expect(
            "recovery",
            "steps of the ramp (25, 50, 100 %)",
            "3",
            (3.0, 3.0),
            Some(self.steps_since(began)),
            0,
        );
        Ok(())
    }

    async fn stop_by_hand(&mut self) -> Result<()> {
        self.begin(
            "stop by hand",
            "kubectl create configmap hedgerow-off: whatever the signals say, hedging is off.",
        );
        let stopped = self.observer.seconds();
        self.kubectl(&[
            "create",
            "configmap",
            "hedgerow-off",
            "-n",
            NAMESPACE,
            "--from-literal=reason=try-out",
        ])
        .await?;
        self.off_since(
            "stop by hand",
            "kubectl create",
            stopped,
            "a watch and a write",
            3.0,
        )
        .await?;
        self.begin(
            "back by hand",
            "kubectl delete configmap hedgerow-off: cooldown, then the ramp again.",
        );
        let began = self.observer.seconds();
        self.kubectl(&["delete", "configmap", "hedgerow-off", "-n", NAMESPACE])
            .await?;
        self.until_full(
            "hedging is back at its full budget",
            began,
            Duration::from_secs(90),
        )
        .await?;
        self.expect(
            "back by hand",
            "steps of the ramp (25, 50, 100 %)",
            "3",
            (3.0, 3.0),
            Some(self.steps_since(began)),
            0,
        );
        self.watch(Duration::from_secs(5)).await;
        Ok(())
    }

    /// Hedging goes off: times the document and the last hedge from `since`, when `what` happened.
    async fn off_since(
        &mut self,
        phase: &'static str,
        what: &str,
        since: f64,
        expected: &str,
        within: f64,
    ) -> Result<()> {
        let is_off = |now: &Sample| now.at > since && now.document.delay_ms.is_none();
        let off = self
            .until("the document says off", Duration::from_secs(20), is_off)
            .await?;
        let document = off.at - since;
        self.expect(
            phase,
            "seconds until the document says off",
            expected,
            (0.0, within),
            Some(document),
            1,
        );
        self.watch(SETTLE).await;
        let last_hedge = self.last_hedge_since(since).unwrap_or(since) - since;
        self.expect(
            phase,
            "seconds until the last hedge",
            "with the document",
            (0.0, document + CLIENT_SEES),
            Some(last_hedge),
            1,
        );
        self.show.say(&format!(
            "  {what} -> document {document:.1} s -> last hedge {last_hedge:.1} s"
        ));
        Ok(())
    }

    /// When the hedge counter last rose.
    fn last_hedge_since(&self, since: f64) -> Option<f64> {
        let Record { samples, .. } = self.observer.record();
        samples
            .windows(2)
            .filter(|pair| pair[1].at > since && pair[1].hedges > pair[0].hedges)
            .map(|pair| pair[1].at)
            .next_back()
    }

    /// How many times the budget rose.
    fn steps_since(&self, since: f64) -> f64 {
        let Record { samples, .. } = self.observer.record();
        let rises = samples
            .windows(2)
            .filter(|pair| pair[1].at > since && pair[1].document.percent > pair[0].document.percent);
        u32::try_from(rises.count()).map_or(f64::INFINITY, f64::from)
    }

    /// Waits until the budget has risen in all three steps of the ramp since then.
    async fn until_full(&self, what: &str, since: f64, within: Duration) -> Result<Sample> {
        let steps = |now: &Sample| now.document.percent > 0.0 && self.steps_since(since) >= 3.0;
        self.until(what, within, steps).await
    }

    async fn until(&self, what: &str, within: Duration, holds: impl Fn(&Sample) -> bool) -> Result<Sample> {
        let begin = Instant::now();
        loop {
            if let Some(now) = self.live().filter(|now| holds(now)) {
                return Ok(now);
            }
            ensure!(begin.elapsed() < within, "waited {within:?} for this: {what}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Lets time pass; returns the first and the last sample of it.
    async fn watch(&self, time: Duration) -> (Sample, Sample) {
        let first = self.observer.latest().unwrap_or_default();
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.live();
            sleep(Duration::from_millis(250)).await;
        }
        (first, self.observer.latest().unwrap_or_default())
    }

    /// Shows what is so now, and returns it.
    fn live(&self) -> Option<Sample> {
        let now = self.observer.latest()?;
        self.show.now(&self.observer.sample_at(now.at - 10.0), &now);
        Some(now)
    }

    fn begin(&self, title: &'static str, what: &str) {
        self.observer.begin(title);
        self.show.phase(title, what);
    }

    fn expect(
        &mut self,
        phase: &'static str,
        what: &'static str,
        expected: &str,
        accepted: (f64, f64),
        measured: Option<f64>,
        decimals: usize,
    ) {
        let line = Expectation {
            phase,
            what,
            expected: expected.to_owned(),
            accepted,
            measured,
            decimals,
        };
        let mark = if line.holds() { "ok" } else { "NOT AS EXPECTED" };
        self.show.say(&format!(
            "  {what}: {} (expected {expected}) {mark}",
            line.shown()
        ));
        self.expectations.push(line);
    }

    async fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        self.show.say(&format!("  $ kubectl {}", arguments.join(" ")));
        self.stage.kubectl().run(arguments).await?;
        Ok(())
    }
}

fn percent(share: Option<f64>) -> Option<f64> {
    share.map(|share| 100.0 * share)
}
