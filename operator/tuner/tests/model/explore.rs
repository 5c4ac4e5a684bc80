//! Every sequence of steps, by the states that they lead to.

use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use hedgerow_tuner::{Decision, Memory, Readings, Rules, Timestamp, decide};

use crate::monitor::{Monitor, Violation};
use crate::steps::{GOOD, Step, all, rules};

/// What decides, or a mutant of it.
pub(crate) type Decide = fn(&Rules, &Memory, &Readings, Timestamp) -> (Decision, Memory);

/// A state: what the decision remembers, and what was seen of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    memory: Memory,
    monitor: Monitor,
}

/// What was covered.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Covered {
    /// Sequences of steps.
    sequences: f64,
    /// Different states that they led to.
    states: usize,
    /// Decisions made.
    decisions: usize,
}

impl fmt::Display for Covered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sequences,
            states,
            decisions,
        } = self;
        write!(
            f,
            "{sequences:.1e} sequences, {states} states, {decisions} decisions"
        )
    }
}

/// A sequence that ends with what must not be.
#[derive(Clone, Debug)]
pub(crate) struct Broken {
    pub(crate) violation: Violation,
    /// Its last step.
    step: Step,
    /// How many steps it is from the start.
    length: u64,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            violation,
            step,
            length,
        } = self;
        write!(f, "{violation:?} after {length} steps, the last {step:?}")
    }
}

/// What decides, and what it decides by.
pub(crate) struct Model {
    pub(crate) decide: Decide,
    pub(crate) rules: Rules,
}

impl Model {
    pub(crate) fn real() -> Self {
        Self::of(decide)
    }

    pub(crate) fn of(decide: Decide) -> Self {
        Self {
            decide,
            rules: rules(),
        }
    }

    /// The state after one more step.
    fn after(&self, state: &State, step: Step) -> Result<State, Broken> {
        let State { memory, mut monitor } = state.clone();
        let now = monitor.next();
        let (decision, memory) = (self.decide)(&self.rules, &memory, &step.readings(now), now);
        monitor.sees(step, &decision.orders).map_err(|violation| Broken {
            violation,
            step,
            length: monitor.step(),
        })?;
        Ok(State { memory, monitor })
    }

    /// The state after these steps.
    pub(crate) fn state_after(&self, steps: impl IntoIterator<Item = Step>) -> Result<State, Broken> {
        steps
            .into_iter()
            .try_fold(State::default(), |state, step| self.after(&state, step))
    }

    /// Takes every sequence of so many steps from `start`. Sequences that lead to the same state at the same time are one from
    /// there on. When everything is good from the end of any of them on, hedging must come back in time.
    pub(crate) fn explore(&self, start: &State, depth: u32) -> Result<Covered, Broken> {
        let steps = all();
        let mut covered = Covered {
            sequences: (steps.len() as f64).powi(depth.try_into().unwrap()),
            ..Covered::default()
        };
        let mut layer = vec![start.clone()];
        for _ in 0..depth {
            let mut known = HashSet::new();
            let mut next = Vec::new();
            for state in &layer {
                for &step in &steps {
                    let state = self.after(state, step)?;
                    if known.insert(state.key()) {
                        next.push(state);
                    }
                }
            }
            covered.decisions += layer.len() * steps.len();
            covered.states += next.len();
            layer = next;
        }
        for state in layer {
            covered.decisions += self.comes_back(state)?;
        }
        Ok(covered)
    }

    /// Takes good steps until hedging is on in full; how many.
    fn comes_back(&self, mut state: State) -> Result<usize, Broken> {
        let within = Monitor::back_within();
        for taken in 0..=within {
            if state.monitor.is_full() {
                return Ok(taken as usize);
            }
            state = self.after(&state, GOOD)?;
        }
        Err(Broken {
            violation: Violation::OffForEver,
            step: GOOD,
            length: state.monitor.step(),
        })
    }
}

impl State {
    /// What tells this state from others of the same time: 128 bits of a hash of what can make a decision about the switch another
    /// one. That is not the revision, nor what only moves the delay or a diagnosis: the delay is one and the same whenever there
    /// is one, which the monitor sees to.
    fn key(&self) -> u128 {
        let mut memory = serde_json::to_value(&self.memory).unwrap();
        let fields = memory.as_object_mut().unwrap();
        for moot in [
            "revision",
            "written",
            "published",
            "samples",
            "findings",
            "history",
        ] {
            fields.remove(moot);
        }
        let orders = fields.get_mut("orders").and_then(|orders| orders.as_object_mut());
        if let Some(off) = orders.filter(|orders| !orders.contains_key("hedging")) {
            off.remove("reason");
        }
        let all = memory.to_string();
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, &all, &self.monitor).hash(&mut hasher);
            u128::from(hasher.finish())
        };
        half(0) << 64 | half(1)
    }
}
