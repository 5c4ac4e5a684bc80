//! What must hold of every decision, told from what is read and decided alone.

use hedgerow_tuner::{Orders, Timestamp};

use crate::steps::{Level, STEP, Step};

/// In steps, each of which is also the cooldown, the propagation, a step of the ramp and how long a signal may be unknown.
const TRUSTED_AFTER: u64 = 10;
/// A cooldown that was doubled again and again is at most so many.
const LONGEST: u64 = 30;
/// The whole budget, and what hedging comes back with.
const FULL: f64 = 10.0;
const FIRST: f64 = 2.5;

/// What is remembered of the steps so far. Steps are numbered from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Monitor {
    step: u64,
    /// Hundredths of a per cent that are told now; 0 is off.
    told: u64,
    /// Clients hedged once, or a signal was above its line: coming on takes a cooldown.
    was_on_or_above: bool,
    /// Off since.
    off_since: u64,
    /// A signal was last seen not to be back under its line.
    not_back: u64,
    /// The budget rose last, or came back whole last.
    rose: u64,
    /// How often the cooldown doubles.
    doublings: u32,
    /// Each signal was known last.
    known: [u64; 2],
}

/// What a decision does that it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Violation {
    /// On while a signal is above its line.
    OnWhileAbove,
    /// On while a person has stopped it.
    OnWhileStopped,
    /// On while a signal has been unknown for longer than it may.
    OnWhileBlind,
    /// It comes on, or more of it does, while something is not known or not back.
    MoreInDoubt,
    /// It comes on before the cooldown is over.
    BeforeCooldown,
    /// It comes on with another budget than the first of the ramp, or the next comes too early.
    NoRamp,
    /// Another delay than the one that latency ever says.
    AnotherDelay,
    /// It is off though everything has been good for longer than any cooldown.
    OffForEver,
}

impl Monitor {
    /// Looks at the next step and what was decided in it.
    pub(crate) fn sees(&mut self, step: Step, orders: &Orders) -> Result<(), Violation> {
        self.step += 1;
        let (now, before) = (self.step, self.told);
        let levels = step.levels();
        let any = |level: Level| levels.contains(&level);
        for (known, level) in self.known.iter_mut().zip(levels) {
            if level != Level::Unknown {
                *known = now;
            }
        }
        let percent = orders.hedging.map_or(0.0, |hedging| hedging.percent);
        self.told = (percent * 100.0).round() as u64;
        let (on, more) = (self.told > 0, self.told > before);
        if orders
            .hedging
            .is_some_and(|hedging| (hedging.delay_ms - 500.0).abs() > 1e-9)
        {
            return Err(Violation::AnotherDelay);
        }
        if on && any(Level::Above) {
            return Err(Violation::OnWhileAbove);
        }
        if on && step.stopped {
            return Err(Violation::OnWhileStopped);
        }
        if on && self.known.iter().any(|known| now - known > 1) {
            return Err(Violation::OnWhileBlind);
        }
        if more && (any(Level::Unknown) || step.latency != crate::steps::Seen::Fine) {
            return Err(Violation::MoreInDoubt);
        }
        if more && before == 0 {
            if any(Level::Between) {
                return Err(Violation::MoreInDoubt);
            }
            if self.was_on_or_above && now < self.over() {
                return Err(Violation::BeforeCooldown);
            }
            if (percent - FIRST).abs() > 1e-9 {
                return Err(Violation::NoRamp);
            }
        } else if more && (self.told > 2 * before || now <= self.rose) {
            return Err(Violation::NoRamp);
        }
        if before > 0 && !on {
            let trusted = before as f64 >= FULL * 100.0 && now - self.rose >= TRUSTED_AFTER;
            self.off_since = now;
            self.doublings = match (trusted, any(Level::Above)) {
                (true, _) => 0,
                (false, tripped) => self.doublings + u32::from(tripped),
            };
        }
        if self.told != before {
            self.rose = now;
        }
        if any(Level::Above) || any(Level::Between) {
            self.not_back = now;
        }
        self.was_on_or_above |= on || any(Level::Above);
        Ok(())
    }

    /// The step at which the cooldown is over: it runs from the last value that was not back, and from when the off document had
    /// reached clients. A trip before ten minutes at full budget doubles it: so how often hedging can flap is bounded.
    fn over(&self) -> u64 {
        let cooldown = (1_u64 << self.doublings.min(16)).min(LONGEST);
        self.not_back.max(self.off_since + 1) + cooldown
    }

    /// By how many good steps from now hedging must be on in full, wherever it is: the longest cooldown, and room for the ramp and
    /// for what is to be known again.
    pub(crate) const fn back_within() -> u64 {
        LONGEST + 8
    }

    /// Whether all of the budget is told.
    pub(crate) fn is_full(&self) -> bool {
        self.told as f64 >= FULL * 100.0
    }

    /// Steps until now.
    pub(crate) fn step(&self) -> u64 {
        self.step
    }

    /// When the next step is.
    pub(crate) fn next(&self) -> Timestamp {
        let seconds = (self.step + 1) * STEP.as_secs();
        Timestamp::from_millis(1_700_000_000_000).plus(std::time::Duration::from_secs(seconds))
    }
}
