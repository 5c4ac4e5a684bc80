//! Asks the sources, as often as a quiet service's window has to widen.

use std::collections::BTreeMap;

use hedgerow_signals::{Source, SourceError, TargetQuery, TargetReadings};
use hedgerow_tuner::{Decision, Readings, Unknown, decide_settled};

use super::Planned;
use crate::compile::Target;
use crate::settings::Sources;
use crate::words;

/// A window doubles from a minute to a day in 11 steps.
const MOST_ROUNDS: usize = 12;

/// What the sources say, and what follows.
pub(super) struct Read {
    /// The decisions, by policy and target, in the order of the plan.
    pub(super) decisions: Vec<Vec<Decision>>,
    /// The sources that answer nothing, by name.
    pub(super) failing: BTreeMap<String, Unknown>,
}

/// Reads and decides every target.
pub(super) async fn read(planned: &[Planned], declared: &Sources) -> Result<Read, SourceError> {
    let mut read = Read {
        decisions: planned.iter().map(|_| Vec::new()).collect(),
        failing: BTreeMap::new(),
    };
    for declared in declared.iter() {
        let name = &declared.settings.name;
        let policies: Vec<usize> = (0..planned.len())
            .filter(|&at| planned[at].compiled.source == *name)
            .collect();
        if policies.is_empty() {
            continue;
        }
        let source = Source::new(declared.settings.clone())?;
        let targets: Vec<&Target> = policies
            .iter()
            .flat_map(|&at| &planned[at].compiled.targets)
            .collect();
        let mut decisions = decide_all(&source, &targets).await.into_iter();
        for at in policies {
            read.decisions[at] = decisions
                .by_ref()
                .take(planned[at].compiled.targets.len())
                .collect();
        }
        if let Some(failing) = source.stats().failing {
            read.failing.insert(name.clone(), failing);
        }
    }
    Ok(read)
}

async fn decide_all(source: &Source, targets: &[&Target]) -> Vec<Decision> {
    let mut queries: Vec<TargetQuery> = targets.iter().map(|target| target.query.clone()).collect();
    let mut readings: Vec<Readings> = vec![Readings::default(); targets.len()];
    let mut due: Vec<usize> = (0..targets.len()).collect();
    let mut decisions = Vec::new();
    for _ in 0..MOST_ROUNDS {
        let asked: Vec<TargetQuery> = due.iter().map(|&at| queries[at].clone()).collect();
        for (&at, answer) in due.iter().zip(source.read(&asked).await) {
            take(&mut readings[at], answer);
        }
        let now = words::now();
        decisions = targets
            .iter()
            .zip(&readings)
            .map(|(target, readings)| decide_settled(&target.rules, readings, now))
            .collect();
        due = (0..targets.len())
            .filter(|&at| widen(&mut queries[at], &decisions[at]))
            .collect();
        if due.is_empty() {
            break;
        }
    }
    decisions
}

fn take(readings: &mut Readings, answer: TargetReadings) {
    readings.latency = answer.latency;
    if answer.counts.is_some() {
        readings.counts = answer.counts;
    }
    // The signals were read in the first round; later rounds ask for latency and counters alone.
    if !answer.signals.is_empty() {
        readings.signals = answer.signals.into_iter().map(Some).collect();
    }
}

/// Makes the query ask for what the decision still wants; whether it wants anything.
fn widen(query: &mut TargetQuery, decision: &Decision) -> bool {
    let Some(latency) = &mut query.latency else {
        return false;
    };
    let wants = decision.wants_wider && latency.windows != decision.windows_wanted;
    if wants {
        latency.windows.clone_from(&decision.windows_wanted);
        if let Some(counts) = query
            .counts
            .as_mut()
            .filter(|_| !decision.counts_wanted.is_empty())
        {
            counts.windows.clone_from(&decision.counts_wanted);
        }
        query.signals.clear();
    }
    wants
}
