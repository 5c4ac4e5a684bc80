//! What makes hedging pay less than it could: each thing with its numbers and what to do about it.
//!
//! Each file of this module tells one by one look at the evidence. A target is looked at some thousand times a day, so a look
//! shows only what chance seldom does (a bound that holds 99 times in a hundred is beyond the line), and what was shown
//! stands until a look refutes it as surely.

mod estimate_disagrees;
mod evidence;
mod findings;
mod look;
mod no_benefit;
mod request_bound;
mod slow_together;
mod too_slow;
mod wanted;

use std::fmt;
use std::time::Duration;

pub(crate) use evidence::Evidence;
pub(crate) use findings::Findings;
pub(crate) use wanted::counts_wanted;

use crate::memory::Memory;
use crate::{Diagnosis, DiagnosisReason, Mode, Rules, Timestamp};
use findings::Said;
use look::Look;

/// Nothing that was shown ends sooner: replicas that share a disturbance share it from time to time.
const LINGERS: Duration = Duration::from_secs(3600);

/// What the evidence says of how a reading is to be read: whether its counters speak of the same calls, and whether replicas
/// are slow at the same time. It is asked before the reading is understood, and told with the other diagnoses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreseen {
    disagrees: Seen<estimate_disagrees::Numbers>,
    strikes: estimate_disagrees::Strikes,
    together: Seen<slow_together::Numbers>,
}

impl Foreseen {
    /// Clients count the calls that the latency metric measures, as far as is known.
    pub(crate) const fn counters_agree(&self) -> bool {
        self.disagrees.said.is_none()
    }

    /// Replicas are slow at the same time.
    pub(crate) const fn slow_together(&self) -> bool {
        self.together.said.is_some()
    }
}

/// What one look saw, and what is said after it.
#[derive(Clone, Copy, Debug)]
struct Seen<N> {
    look: Option<Look<N>>,
    said: Option<Said>,
}

impl<N: fmt::Display> Seen<N> {
    fn after(before: Option<Said>, look: Option<Look<N>>, lingers: Duration, now: Timestamp) -> Self {
        let outcome = look.as_ref().map(|look| look.outcome);
        Self {
            said: Said::after(before, outcome, lingers, now),
            look,
        }
    }

    fn told(self, reason: DiagnosisReason, advice: &str) -> Option<Diagnosis> {
        self.said?;
        let message = match self.look {
            Some(Look { numbers, .. }) => format!("{numbers}; {advice}"),
            None => format!("nothing to measure it on now; {advice}"),
        };
        Some(Diagnosis { reason, message })
    }
}

/// What the evidence says of how it is to be read, given what the diagnoses `found` before.
pub(crate) fn foresee(evidence: &Evidence<'_>, found: &Findings) -> Foreseen {
    let mut strikes = found.strikes;
    let before = found.estimate_disagrees;
    let look = estimate_disagrees::look(evidence, before.is_some(), &mut strikes);
    let disagrees = Seen::after(before, look, Duration::ZERO, evidence.now);
    // Counters of other calls say nothing about these.
    let evidence = evidence.given(disagrees.said.is_none());
    let look = slow_together::look(&evidence);
    Foreseen {
        disagrees,
        strikes,
        together: Seen::after(found.slow_together, look, LINGERS, evidence.now),
    }
}

/// Looks at the evidence, beside what it was `foreseen` to say, and notes in `findings` what begins and what ends.
pub(crate) fn diagnose(
    evidence: &Evidence<'_>,
    foreseen: Foreseen,
    findings: &mut Findings,
) -> Vec<Diagnosis> {
    let now = evidence.now;
    let Foreseen {
        disagrees, together, ..
    } = foreseen;
    findings.strikes = foreseen.strikes;
    findings.estimate_disagrees = disagrees.said;
    findings.slow_together = together.said;
    let bound = request_bound::look(evidence);
    let bound = Seen::after(findings.request_bound, bound, LINGERS, now);
    findings.request_bound = bound.said;
    too_slow::note(evidence, &mut findings.usual);
    let slow = too_slow::look(evidence, findings.usual);
    let slow = Seen::after(findings.too_slow, slow, Duration::ZERO, now);
    findings.too_slow = slow.said;
    let no_benefit = no_benefit::note(evidence, &mut findings.no_benefit).map(|message| Diagnosis {
        reason: DiagnosisReason::NoBenefit,
        message,
    });
    [
        together.told(DiagnosisReason::SlowTogether, slow_together::ADVICE),
        bound.told(DiagnosisReason::RequestBound, request_bound::ADVICE),
        no_benefit,
        disagrees.told(DiagnosisReason::EstimateDisagrees, estimate_disagrees::ADVICE),
        slow.told(DiagnosisReason::TooSlow, too_slow::ADVICE),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// What was found with another metric, or another unit, says nothing about this one.
pub(crate) fn forget_another_measure(rules: &Rules, memory: &mut Memory) {
    if memory
        .accepted
        .as_ref()
        .is_some_and(|measure| *measure != rules.measure)
    {
        memory.findings = Findings {
            no_benefit: memory.findings.no_benefit,
            ..Findings::default()
        };
    }
}

/// Whether hedges that do not win may turn hedging off.
fn may_disable(rules: &Rules) -> bool {
    rules.no_benefit == crate::NoBenefit::Disable && rules.counted && rules.mode == Mode::Enforce
}
