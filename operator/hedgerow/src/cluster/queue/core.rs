//! The queue as a value: no clock, no waiting.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use super::super::name::PolicyKey;
use super::bucket::Bucket;
use super::{Lane, Outcome, PER_NAMESPACE, Work, WriteRate, Writes};

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
    /// What may be popped, in the order of lanes, then of coming.
    ready: BTreeMap<(Lane, u64), PolicyKey>,
    /// What backs off, by when that ends.
    backing_off: BTreeMap<(Instant, u64), (PolicyKey, Part)>,
    /// How many policies of a namespace are being worked on.
    running: HashMap<String, usize>,
    sequence: u64,
    bucket: Bucket,
}

/// The work of one policy comes in two parts, of which one is popped at a time. Each backs off by itself: a document that
/// cannot be written must not keep the status from telling so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Documents,
    Rest,
}

#[derive(Debug, Default)]
struct Entry {
    documents: State,
    rest: State,
    running: bool,
}

/// How one part stands.
#[derive(Debug, Default)]
struct State {
    /// In which lane it waits to be done, if it does.
    waits: Option<Lane>,
    failures: u32,
    place: Place,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// In neither index: it does not wait, or its policy is being worked on.
    #[default]
    Out,
    Ready(Lane, u64),
    BackingOff(Instant, u64),
}

impl Part {
    const ALL: [Self; 2] = [Self::Documents, Self::Rest];

    fn of(lane: Lane) -> Self {
        match lane {
            Lane::Safe | Lane::Document => Self::Documents,
            Lane::Rest => Self::Rest,
        }
    }
}

impl Entry {
    fn state(&mut self, part: Part) -> &mut State {
        match part {
            Part::Documents => &mut self.documents,
            Part::Rest => &mut self.rest,
        }
    }

    fn is_idle(&self) -> bool {
        !self.running && self.documents.waits.is_none() && self.rest.waits.is_none()
    }
}

impl State {
    fn wait_in(&mut self, lane: Lane) {
        self.waits = Some(self.waits.map_or(lane, |waiting| waiting.min(lane)));
    }
}

impl Core {
    pub(super) fn new(rate: WriteRate, now: Instant) -> Self {
        Self {
            entries: HashMap::new(),
            ready: BTreeMap::new(),
            backing_off: BTreeMap::new(),
            running: HashMap::new(),
            sequence: 0,
            bucket: Bucket::new(rate, now),
        }
    }

    pub(super) fn push(&mut self, policy: PolicyKey, lane: Lane) {
        let entry = self.entries.entry(policy.clone()).or_default();
        let running = entry.running;
        let state = entry.state(Part::of(lane));
        let turns_safe = lane == Lane::Safe && state.waits != Some(Lane::Safe);
        state.wait_in(lane);
        let to_be_placed = match state.place {
            Place::Out => !running,
            // It keeps its turn, unless it moves to an earlier lane.
            Place::Ready(in_lane, _) => lane < in_lane,
            // A decision to go off is worth another try at once.
            Place::BackingOff(..) => turns_safe,
        };
        if to_be_placed {
            self.place(&policy, Part::of(lane));
        }
    }

    /// The next piece of work for somebody who does these `writes`.
    pub(super) fn pop(&mut self, writes: Writes, now: Instant) -> Next {
        self.end_back_offs(now);
        let may_run = |policy: &PolicyKey| {
            let running = self.running.get(&policy.namespace);
            running.is_none_or(|running| *running < PER_NAMESPACE)
        };
        let lanes = ..(writes.last_lane(), u64::MAX);
        let next = self.ready.range(lanes).find(|(_, policy)| may_run(policy));
        let Some((&(lane, sequence), _)) = next else {
            let first = self.backing_off.first_key_value();
            return first.map_or(Next::Idle, |(&(due, _), _)| Next::At(due));
        };
        if lane == Lane::Safe {
            self.bucket.spend(now);
        } else if let Err(free_at) = self.bucket.take(now) {
            return Next::At(free_at);
        }
        let Some(policy) = self.ready.remove(&(lane, sequence)) else {
            return Next::Idle;
        };
        *self.running.entry(policy.namespace.clone()).or_default() += 1;
        if let Some(entry) = self.entries.get_mut(&policy) {
            entry.running = true;
            *entry.state(Part::of(lane)) = State {
                failures: entry.state(Part::of(lane)).failures,
                ..State::default()
            };
            for part in Part::ALL {
                let state = entry.state(part);
                if let Place::Ready(lane, sequence) = state.place {
                    self.ready.remove(&(lane, sequence));
                    state.place = Place::Out;
                }
            }
        }
        Next::Work(Work { policy, lane })
    }

    pub(super) fn finish(&mut self, work: &Work, outcome: Outcome, jitter: f64, now: Instant) {
        let Some(entry) = self.entries.get_mut(&work.policy) else {
            return;
        };
        entry.running = false;
        if let Some(running) = self
            .running
            .remove(&work.policy.namespace)
            .filter(|running| *running > 1)
        {
            self.running.insert(work.policy.namespace.clone(), running - 1);
        }
        let part = Part::of(work.lane);
        let state = entry.state(part);
        match outcome {
            Outcome::Done => state.failures = 0,
            Outcome::Retry => {
                // What was pushed meanwhile may be more urgent than what failed, and is then worth a try at once.
                let turned_safe = state.waits == Some(Lane::Safe) && work.lane != Lane::Safe;
                state.wait_in(work.lane);
                if !turned_safe {
                    self.sequence += 1;
                    let due = now + back_off(state.failures).mul_f64(jitter);
                    state.place = Place::BackingOff(due, self.sequence);
                    self.backing_off
                        .insert((due, self.sequence), (work.policy.clone(), part));
                }
                state.failures = state.failures.saturating_add(1);
            }
        }
        if entry.is_idle() {
            self.entries.remove(&work.policy);
            return;
        }
        for part in Part::ALL {
            if self
                .entries
                .get_mut(&work.policy)
                .is_some_and(|entry| entry.state(part).place == Place::Out)
            {
                self.place(&work.policy, part);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.ready.clear();
        self.backing_off.clear();
        self.entries.retain(|_, entry| entry.running);
        for entry in self.entries.values_mut() {
            *entry = Entry {
                running: true,
                ..Entry::default()
            };
        }
    }

    pub(super) fn waiting(&self, lane: Lane) -> usize {
        let states = self
            .entries
            .values()
            .flat_map(|entry| [&entry.documents, &entry.rest]);
        states.filter(|state| state.waits == Some(lane)).count()
    }

    fn end_back_offs(&mut self, now: Instant) {
        while let Some((&(due, sequence), _)) = self.backing_off.first_key_value() {
            if due > now {
                break;
            }
            let Some((policy, part)) = self.backing_off.remove(&(due, sequence)) else {
                break;
            };
            let Some(entry) = self.entries.get_mut(&policy) else {
                continue;
            };
            entry.state(part).place = Place::Out;
            // While its policy is worked on it waits for the end of that.
            if !entry.running {
                self.place(&policy, part);
            }
        }
    }

    /// Puts a part at the end of the lane that it waits in, wherever it stands now.
    fn place(&mut self, policy: &PolicyKey, part: Part) {
        let Some(entry) = self.entries.get_mut(policy) else {
            return;
        };
        let running = entry.running;
        let state = entry.state(part);
        match state.place {
            Place::Ready(lane, sequence) => drop(self.ready.remove(&(lane, sequence))),
            Place::BackingOff(due, sequence) => drop(self.backing_off.remove(&(due, sequence))),
            Place::Out => {}
        }
        state.place = Place::Out;
        if let Some(lane) = state.waits.filter(|_| !running) {
            self.sequence += 1;
            state.place = Place::Ready(lane, self.sequence);
            self.ready.insert((lane, self.sequence), policy.clone());
        }
    }
}

/// How long a part waits after so many failures in a row.
fn back_off(failures: u32) -> Duration {
    FIRST_BACK_OFF
        .saturating_mul(2_u32.saturating_pow(failures))
        .min(LONGEST_BACK_OFF)
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
        match core.pop(Writes::All, now) {
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
        assert_eq!(core.pop(Writes::All, now), Next::Idle);
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
        assert_eq!(core.pop(Writes::All, now), Next::Idle);
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
            assert_eq!(core.pop(Writes::All, now), Next::At(due));
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
    fn a_document_that_backs_off_does_not_keep_the_status_from_telling_so() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        core.push(policy("a"), Lane::Rest);
        core.finish(&work("a", Lane::Document), Outcome::Retry, NO_JITTER, now);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Rest));
        core.finish(&work("a", Lane::Rest), Outcome::Done, NO_JITTER, now);
        assert_eq!(
            core.pop(Writes::All, now),
            Next::At(now + FIRST_BACK_OFF),
            "the document keeps its back-off"
        );
    }

    #[test]
    fn a_back_off_that_ends_while_the_status_is_written_waits_for_that() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        core.push(policy("a"), Lane::Rest);
        core.finish(&work("a", Lane::Document), Outcome::Retry, NO_JITTER, now);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Rest));
        let later = now + FIRST_BACK_OFF;
        assert_eq!(
            core.pop(Writes::All, later),
            Next::Idle,
            "never two workers on one policy"
        );
        core.finish(&work("a", Lane::Rest), Outcome::Done, NO_JITTER, later);
        assert_eq!(pop(&mut core, later), popped("a", Lane::Document));
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
        assert_eq!(core.pop(Writes::All, now), Next::At(now + FIRST_BACK_OFF));
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
    fn the_safe_lane_does_not_wait_when_the_rate_binds() {
        let now = Instant::now();
        let rate = WriteRate {
            per_second: 1.0,
            burst: 1.0,
        };
        let mut core = Core::new(rate, now);
        core.push(policy("a"), Lane::Document);
        core.push(policy("b"), Lane::Document);
        assert_eq!(pop(&mut core, now), popped("a", Lane::Document));
        let Next::At(free_at) = core.pop(Writes::All, now) else {
            panic!("the rate does not bind");
        };
        assert!(free_at >= now + Duration::from_secs(1));
        core.push(policy("off"), Lane::Safe);
        assert_eq!(pop(&mut core, now), popped("off", Lane::Safe));
        assert_eq!(pop(&mut core, free_at), popped("b", Lane::Document));
    }

    #[test]
    fn a_stop_of_everything_takes_no_tokens_and_leaves_none_behind() {
        let now = Instant::now();
        let rate = WriteRate {
            per_second: 1.0,
            burst: 2.0,
        };
        let mut core = Core::new(rate, now);
        core.push(policy("rest"), Lane::Rest);
        for number in 0..1000 {
            core.push(PolicyKey::new(format!("shop-{number}"), "a"), Lane::Safe);
        }
        for _ in 0..1000 {
            assert_eq!(pop(&mut core, now), popped("a", Lane::Safe));
        }
        let Next::At(free_at) = core.pop(Writes::All, now) else {
            panic!("ordinary writes are still limited");
        };
        assert!(
            free_at <= now + Duration::from_millis(1_001),
            "nor do they wait until a debt is paid"
        );
    }

    #[test]
    fn who_writes_what_is_safe_alone_gets_nothing_else() {
        let (mut core, now) = core();
        core.push(policy("a"), Lane::Document);
        core.push(policy("b"), Lane::Rest);
        assert_eq!(core.pop(Writes::Safe, now), Next::Idle);
        core.push(policy("off"), Lane::Safe);
        assert_eq!(core.pop(Writes::Safe, now), Next::Work(work("off", Lane::Safe)));
        assert_eq!(core.pop(Writes::Safe, now), Next::Idle);
    }

    #[test]
    fn a_namespace_where_nothing_moves_does_not_take_every_writer() {
        let (mut core, now) = core();
        for number in 0..=PER_NAMESPACE {
            core.push(policy(&format!("slow-{number}")), Lane::Safe);
        }
        core.push(PolicyKey::new("shop", "off"), Lane::Safe);
        core.push(PolicyKey::new("shop", "doc"), Lane::Document);
        for number in 0..PER_NAMESPACE {
            assert_eq!(pop(&mut core, now), popped(&format!("slow-{number}"), Lane::Safe));
        }
        assert_eq!(pop(&mut core, now), popped("off", Lane::Safe));
        assert_eq!(pop(&mut core, now), popped("doc", Lane::Document));
        assert_eq!(core.pop(Writes::All, now), Next::Idle);
        core.finish(&work("slow-0", Lane::Safe), Outcome::Done, NO_JITTER, now);
        assert_eq!(
            pop(&mut core, now),
            popped(&format!("slow-{PER_NAMESPACE}"), Lane::Safe),
            "one may begin when one has ended"
        );
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
