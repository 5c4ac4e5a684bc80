//! The queue as a value: no clock, no waiting.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::super::name::PolicyKey;
use super::{Lane, Outcome, Work, WriteRate};

const FIRST_BACK_OFF: Duration = Duration::from_millis(500);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);

/// What there is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This.
    Work(Work),
    /// Nothing before this moment.
    At(Instant),
    /// Nothing until something is pushed or finished.
    Idle,
}

#[derive(Debug)]
pub(super) struct Core {
    entries: HashMap<PolicyKey, Entry>,
    /// Policies that may be popped, in the order of lanes, then of coming.
    ready: BTreeMap<(Lane, u64), PolicyKey>,
    /// Policies that back off, by when that ends.
    backing_off: BTreeMap<(Instant, u64), PolicyKey>,
    sequence: u64,
    bucket: Bucket,
}

#[derive(Debug, Default)]
struct Entry {
    /// `Safe` or `Document`, when the documents wait.
    documents: Option<Lane>,
    /// Whether the rest waits.
    rest: bool,
    failures: u32,
    place: Place,
}

/// Where a policy stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Nowhere.
    #[default]
    Out,
    Ready(Lane, u64),
    BackingOff(Instant, u64),
    Running,
}

impl Entry {
    fn first_lane(&self) -> Option<Lane> {
        self.documents.or(self.rest.then_some(Lane::Rest))
    }
}

impl Core {
    pub(super) fn new(rate: WriteRate, now: Instant) -> Self {
        Self {
            entries: HashMap::new(),
            ready: BTreeMap::new(),
            backing_off: BTreeMap::new(),
            sequence: 0,
            bucket: Bucket::new(rate, now),
        }
    }

    pub(super) fn push(&mut self, policy: PolicyKey, lane: Lane) {
        let entry = self.entries.entry(policy.clone()).or_default();
        let more_urgent = entry.documents != Some(Lane::Safe) && lane == Lane::Safe;
        match lane {
            Lane::Safe | Lane::Document => {
                entry.documents = Some(entry.documents.map_or(lane, |waiting| waiting.min(lane)));
            }
            Lane::Rest => entry.rest = true,
        }
        match entry.place {
            Place::Out => self.make_ready(&policy),
            // Keeps its turn, unless it moves to an earlier lane.
            Place::Ready(in_lane, _) if lane < in_lane => self.make_ready(&policy),
            // A decision to go off is worth another try at once.
            Place::BackingOff(..) if more_urgent => self.make_ready(&policy),
            Place::Ready(..) | Place::BackingOff(..) | Place::Running => {}
        }
    }

    pub(super) fn pop(&mut self, now: Instant) -> Next {
        self.end_back_offs(now);
        let Some((&(lane, sequence), _)) = self.ready.first_key_value() else {
            let first = self.backing_off.first_key_value();
            return first.map_or(Next::Idle, |(&(due, _), _)| Next::At(due));
        };
        if let Err(free_at) = self.bucket.take(now) {
            return Next::At(free_at);
        }
        let Some(policy) = self.ready.remove(&(lane, sequence)) else {
            return Next::Idle;
        };
        if let Some(entry) = self.entries.get_mut(&policy) {
            entry.place = Place::Running;
            match lane {
                Lane::Safe | Lane::Document => entry.documents = None,
                Lane::Rest => entry.rest = false,
            }
        }
        Next::Work(Work { policy, lane })
    }

    pub(super) fn finish(&mut self, work: &Work, outcome: Outcome, jitter: f64, now: Instant) {
        let Some(entry) = self.entries.get_mut(&work.policy) else {
            return;
        };
        entry.place = Place::Out;
        match outcome {
            Outcome::Done => {
                entry.failures = 0;
                match entry.first_lane() {
                    Some(_) => self.make_ready(&work.policy),
                    None => drop(self.entries.remove(&work.policy)),
                }
            }
            Outcome::Retry => {
                // What was pushed meanwhile may be more urgent than what failed, and is then worth a try at once.
                let more_urgent = entry.documents == Some(Lane::Safe) && work.lane != Lane::Safe;
                let delay = back_off(entry.failures).mul_f64(jitter);
                entry.failures = entry.failures.saturating_add(1);
                match work.lane {
                    Lane::Safe | Lane::Document => {
                        entry.documents = Some(entry.documents.map_or(work.lane, |lane| lane.min(work.lane)));
                    }
                    Lane::Rest => entry.rest = true,
                }
                if more_urgent {
                    self.make_ready(&work.policy);
                } else {
                    self.sequence += 1;
                    let (due, sequence) = (now + delay, self.sequence);
                    entry.place = Place::BackingOff(due, sequence);
                    self.backing_off.insert((due, sequence), work.policy.clone());
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.backing_off.clear();
        self.entries.retain(|_, entry| entry.place == Place::Running);
        for entry in self.entries.values_mut() {
            *entry = Entry {
                place: Place::Running,
                ..Entry::default()
            };
        }
    }

    pub(super) fn waiting(&self, lane: Lane) -> usize {
        let waits = |entry: &&Entry| match lane {
            Lane::Safe | Lane::Document => entry.documents == Some(lane),
            Lane::Rest => entry.rest,
        };
        self.entries.values().filter(waits).count()
    }

    fn end_back_offs(&mut self, now: Instant) {
        while let Some((&(due, _), policy)) = self.backing_off.first_key_value() {
            if due > now {
                break;
            }
            let policy = policy.clone();
            self.make_ready(&policy);
        }
    }

    /// Moves a policy, wherever it stands, to the end of the first lane that it waits for.
    fn make_ready(&mut self, policy: &PolicyKey) {
        let Some(entry) = self.entries.get_mut(policy) else {
            return;
        };
        match entry.place {
            Place::Ready(lane, sequence) => drop(self.ready.remove(&(lane, sequence))),
            Place::BackingOff(due, sequence) => drop(self.backing_off.remove(&(due, sequence))),
            Place::Out | Place::Running => {}
        }
        entry.place = Place::Out;
        if let Some(lane) = entry.first_lane() {
            self.sequence += 1;
            entry.place = Place::Ready(lane, self.sequence);
            self.ready.insert((lane, self.sequence), policy.clone());
        }
    }
}

/// How long a policy waits after so many failures in a row.
fn back_off(failures: u32) -> Duration {
    FIRST_BACK_OFF
        .saturating_mul(2_u32.saturating_pow(failures))
        .min(LONGEST_BACK_OFF)
}

/// A token bucket that starts full.
#[derive(Debug)]
struct Bucket {
    rate: WriteRate,
    tokens: f64,
    at: Instant,
}

impl Bucket {
    fn new(rate: WriteRate, now: Instant) -> Self {
        let rate = WriteRate {
            per_second: rate.per_second.max(0.1),
            burst: rate.burst.max(1.0),
        };
        Self {
            rate,
            tokens: rate.burst,
            at: now,
        }
    }

    /// Takes a token, or says when there will be one.
    fn take(&mut self, now: Instant) -> Result<(), Instant> {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.rate.per_second;
        self.tokens = (self.tokens + gained).min(self.rate.burst);
        self.at = self.at.max(now);
        if self.tokens >= 1.0 {
            self.tokens -= 1.0;
            return Ok(());
        }
        // Rounded up to a millisecond, so that who waits until then does find a token.
        let missing = Duration::from_secs_f64((1.0 - self.tokens) / self.rate.per_second);
        Err(now + missing + Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_JITTER: f64 = 1.0;
    const UNLIMITED: WriteRate = WriteRate {
        per_second: 1e9,
        burst: 1e9,
    };

    fn policy(name: &str) -> PolicyKey {
        PolicyKey::new("helpdesk", name)
    }

    fn core() -> (Core, Instant) {
        let now = Instant::now();
        (Core::new(UNLIMITED, now), now)
    }

    fn pop(core: &mut Core, now: Instant) -> Option<(String, Lane)> {
        match core.pop(now) {
            Next::Work(work) => Some((work.policy.name, work.lane)),
            Next::At(_) | Next::Idle => None,
        }
    }

    fn work(name: &str, lane: Lane) -> Work {
        Work {
            policy: policy(name),
            lane,
        }
    }

    fn popped(name: &str, lane: Lane) -> Option<(String, Lane)> {
        Some((name.to_owned(), lane))
    }

    #[test]
    fn lanes_go_in_their_order_and_within_one_who_came_first() {
        let (mut core, now) = core();
        for (name, lane) in [
            ("rest", Lane::Rest),
            ("doc-1", Lane::Document),
            ("doc-2", Lane::Document),
            ("off", Lane::Safe),
        ] {
            core.push(policy(name), lane);
        }
        assert_eq!(pop(&mut core, now), popped("off", Lane::Safe));
        assert_eq!(pop(&mut core, now), popped("doc-1", Lane::Document));
        assert_eq!(pop(&mut core, now), popped("doc-2", Lane::Document));
        assert_eq!(pop(&mut core, now), popped("rest", Lane::Rest));
        assert_eq!(core.pop(now), Next::Idle);
    }

    #[test]
    fn a_policy_that_is_pushed_often_is_popped_once() {
        let (mut core, now) = core();
        for _ in 0..100 {
            core.push(policy("a"), Lane::Document);
        }
        assert_eq!(core.waiting(Lane::Document), 1);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        core.finish(&work("a", Lane::Document), Outcome::Done, NO_JITTER, now);
        assert_eq!(core.pop(now), Next::Idle);
    }

    #[test]
    fn a_document_that_turns_safe_overtakes() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Document);
        core.push(policy("b"), Lane::Document);
        core.push(policy("b"), Lane::Safe);
        assert_eq!(pop(&mut core, now), popped("b", Lane::Safe));
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
    }

    #[test]
    fn a_safe_document_is_never_put_back() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Safe);
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Safe));
    }

    #[test]
    fn documents_go_before_the_rest_of_the_same_policy_and_both_are_done() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Rest);
        core.push(policy("a"), Lane::Safe);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Safe));
        assert_eq!(pop(&mut core, now), None, "never two workers on one policy");
        core.finish(&work("a", Lane::Safe), Outcome::Done, NO_JITTER, now);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Rest));
    }

    #[test]
    fn what_is_pushed_while_worked_on_is_popped_again_afterwards() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), None);
        core.finish(&work("a", Lane::Document), Outcome::Done, NO_JITTER, now);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
    }

    #[test]
    fn failures_double_the_wait_of_that_policy_alone() {
        let (mut core, mut now) = core();
        core.push(policy("a"), Lane::Document);
        for wait in [500, 1_000, 2_000] {
            assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
            core.finish(&work("a", Lane::Document), Outcome::Retry, NO_JITTER, now);
            let due = now + Duration::from_millis(wait);
            assert_eq!(core.pop(now), Next::At(due));
            now = due;
        }
        core.push(policy("b"), Lane::Document);
        assert_eq!(
            pop(&mut core, now),
            popped("b", Lane::Document),
            "b came first by now"
        );
    }

    #[test]
    fn the_wait_after_many_failures_is_a_minute() {
        assert_eq!(back_off(6), Duration::from_secs(32));
        assert_eq!(back_off(7), Duration::from_secs(60));
        assert_eq!(back_off(u32::MAX), Duration::from_secs(60));
    }

    #[test]
    fn success_forgets_the_failures() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Rest);
        let mut now = now;
        for outcome in [Outcome::Retry, Outcome::Done] {
            now += Duration::from_secs(1);
            assert_eq!(pop(&mut core, now), popped("a", Lane::Rest));
            core.finish(&work("a", Lane::Rest), outcome, NO_JITTER, now);
        }
        core.push(policy("a"), Lane::Rest);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Rest));
        core.finish(&work("a", Lane::Rest), Outcome::Retry, NO_JITTER, now);
        assert_eq!(core.pop(now), Next::At(now + FIRST_BACK_OFF));
    }

    #[test]
    fn a_new_off_does_not_wait_for_a_back_off() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        core.finish(&work("a", Lane::Document), Outcome::Retry, NO_JITTER, now);
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), None);
        core.push(policy("a"), Lane::Safe);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Safe));
    }

    #[test]
    fn an_off_that_comes_while_another_write_fails_does_not_wait() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Rest);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Rest));
        core.push(policy("a"), Lane::Safe);
        core.finish(&work("a", Lane::Rest), Outcome::Retry, NO_JITTER, now);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Safe));
    }

    #[test]
    fn when_the_rate_binds_the_safe_lane_gets_the_next_write() {
        let now = Instant::now();
        let rate = WriteRate {
            per_second: 1.0,
            burst: 1.0,
        };
        let mut core = Core::new(rate, now);
        core.push(policy("a"), Lane::Document);
        core.push(policy("b"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        let Next::At(free_at) = core.pop(now) else {
            panic!("the rate does not bind");
        };
        assert!(free_at >= now + Duration::from_secs(1));
        core.push(policy("off"), Lane::Safe);
        assert_eq!(pop(&mut core, free_at), popped("off", Lane::Safe));
    }

    #[test]
    fn clearing_keeps_what_is_being_worked_on_to_one_worker() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Document);
        core.push(policy("b"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        core.clear();
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), None);
        core.finish(&work("a", Lane::Document), Outcome::Done, NO_JITTER, now);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
    }
}
