//! Hedgerow's way: the tuner decides, its documents reach clients late, and the client's own hedger follows them.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use hedgerow_client::Feed;
use hedgerow_config::{Identity, Limits, NativeDocument, Validity};
use hedgerow_tuner::{
    Budget, Decision, Delay, Histogram, Latency, Line, Measures, Memory, Mode, NoBenefit, Plateau, Readings,
    Rules, Signal, SignalRules, SignalValue, SwitchRules, Timestamp, WindowReading, Windows, decide,
};
use tokio::task::spawn_local;

use crate::PROPAGATION;
use crate::world::World;

/// Signals are read, and a decision is made, so often, in seconds: the default of `saturationInterval`.
const EVERY: u32 = 5;
/// Prometheus scrapes so often ...
const SCRAPE: u32 = 15;
/// ... and latency is read so often: the default of `interval`.
const INTERVAL: u32 = 30;

/// A policy's defaults: percentile 95, budget 10 %, window 10 minutes, cooldown and steps of 2 minutes; two queues above 20 turn
/// hedging off.
fn rules() -> Rules {
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    Rules {
        mode: Mode::Enforce,
        measure: "call_duration_seconds/Seconds".to_owned(),
        measures: Measures::LogicalCall,
        counted: false,
        no_benefit: NoBenefit::Report,
        deadline: None,
        fan_out: None,
        delay: Delay {
            quantile: 0.95,
            min: Duration::from_millis(1),
            max: Duration::from_secs(10),
            add: Duration::ZERO,
            plateau: Plateau::Follow,
        },
        budget: Budget {
            percent: 10.0,
            limited_by_source: false,
            max_attempts: 2,
            max_concurrent: 100,
            min_per_second: 0.0,
        },
        windows: Windows {
            window: minutes(10),
            max_window: minutes(60),
            min_samples: 400,
            low_confidence: false,
        },
        switch: SwitchRules {
            signals: vec![SignalRules {
                name: "queue".to_owned(),
                line: Line::Value {
                    off_above: 20.0,
                    on_below: 14.0,
                    at_least: None,
                },
            }],
            max_unknown: Duration::from_secs(90),
            cooldown: minutes(2),
            ramp_step: minutes(2),
        },
        max_staleness: minutes(5),
        propagation: Duration::from_secs(90),
    }
}

/// When a decision changed what clients are told, in seconds, and what it is: for the table.
#[derive(Debug, Default)]
pub(crate) struct Said(std::cell::RefCell<Vec<(f64, String)>>);

impl Said {
    /// What was said since a time.
    pub(crate) fn since(&self, at: f64) -> Vec<(f64, String)> {
        let said = self.0.borrow();
        said.iter().filter(|(said, _)| *said >= at).cloned().collect()
    }
}

/// Decides again and again, for ever, and tells the clients behind these feeds.
pub(crate) async fn operate(world: Rc<World>, feeds: Rc<[Feed]>, said: Rc<Said>) {
    let rules = rules();
    let (mut memory, mut readings) = (Memory::default(), Readings::default());
    let mut scrapes = Scrapes::default();
    let mut windows = vec![rules.windows.window];
    for round in 1_u32.. {
        let seconds = round * EVERY;
        world.until(seconds.into()).await;
        let now = timestamp(seconds);
        if seconds.is_multiple_of(SCRAPE) {
            scrapes.scrape(&world, seconds);
            readings.signals = vec![Some(Signal {
                at: now,
                scrape_interval: Some(Duration::from_secs(SCRAPE.into())),
                value: Ok(SignalValue::Series(world.queues())),
            })];
        }
        if seconds.is_multiple_of(INTERVAL) {
            let windows = windows.iter().map(|&window| scrapes.window(window)).collect();
            readings.latency = Some(Latency {
                at: now,
                windows: Ok(windows),
            });
        }
        let (decision, next) = decide(&rules, &memory, &readings, now);
        if next.revision != memory.revision {
            let told = format!("{}: {}", decision.orders.reason, decision.message);
            said.0.borrow_mut().push((f64::from(seconds), told));
            let (feeds, document) = (Rc::clone(&feeds), document(&rules, &decision, now));
            spawn_local(async move {
                tokio::time::sleep(PROPAGATION).await;
                for feed in feeds.iter() {
                    // A document that is refused is no document, and then nothing is hedged.
                    let _ = feed.update(document.clone());
                }
            });
        }
        memory = next;
        windows = decision.windows_wanted;
    }
}

fn timestamp(seconds: u32) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000).plus(Duration::from_secs(seconds.into()))
}

fn document(rules: &Rules, decision: &Decision, now: Timestamp) -> String {
    let identity = Identity {
        policy: "simulated/brown-out".to_owned(),
        policy_uid: "0".to_owned(),
        target: crate::way::TARGET.to_owned(),
    };
    let limits = Limits {
        deadline: rules.deadline,
        max_attempts: rules.budget.max_attempts,
        max_concurrent: rules.budget.max_concurrent,
    };
    let validity = Validity::new(now, None);
    NativeDocument::new(&identity, &decision.orders, &limits, decision.revision, validity).to_json()
}

/// What was scraped of the histogram of the calls.
#[derive(Debug, Default)]
struct Scrapes {
    /// Calls that ended and are in the histogram.
    known: usize,
    /// When, in seconds, and the calls per bucket until then.
    taken: VecDeque<(u32, Vec<f64>)>,
}

/// Those of Hedgerow's client, in seconds: from 1 ms, each half as large again.
fn bounds() -> impl Iterator<Item = f64> {
    (0..29)
        .map(|power| 0.001 * 1.5_f64.powi(power))
        .chain([f64::INFINITY])
}

impl Scrapes {
    fn scrape(&mut self, world: &World, seconds: u32) {
        let bounds: Vec<f64> = bounds().collect();
        let mut counts = self
            .taken
            .back()
            .map_or_else(|| vec![0.0; bounds.len()], |(_, counts)| counts.clone());
        let new = world.ended_since(self.known);
        self.known += new.len();
        for call in new {
            counts[bounds.partition_point(|bound| *bound < call.took)] += 1.0;
        }
        self.taken.push_back((seconds, counts));
        let longest = rules().windows.max_window.as_secs();
        self.taken
            .retain(|(taken, _)| u64::from(seconds - taken) <= longest);
    }

    /// The calls between the last scrape and the one a window before it.
    fn window(&self, window: Duration) -> WindowReading {
        let newest = self.taken.back();
        let oldest = newest.and_then(|(seconds, _)| {
            let since = u64::from(*seconds).checked_sub(window.as_secs())?;
            self.taken
                .iter()
                .rev()
                .find(|(taken, _)| u64::from(*taken) <= since)
        });
        let within = |bucket: usize| {
            let until = newest.map_or(0.0, |(_, counts)| counts[bucket]);
            until - oldest.map_or(0.0, |(_, counts)| counts[bucket])
        };
        let cumulative = bounds().enumerate().scan(0.0, |below, (bucket, bound)| {
            *below += within(bucket);
            Some((bound, *below))
        });
        WindowReading {
            window,
            distribution: Histogram::from_cumulative(cumulative, None, None),
            cancelled: None,
            timeouts: None,
            caveat: None,
        }
    }
}
