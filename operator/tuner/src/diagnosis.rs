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

use std::time::Duration;

pub(crate) use evidence::Evidence;
pub(crate) use findings::Findings;
pub(crate) use wanted::counts_wanted;

use crate::finding::Observed;
use crate::memory::Memory;
use crate::tally::Tally;
use crate::{Diagnosis, DiagnosisReason, Mode, Rules, Timestamp};
use findings::Said;
use look::Look;

/// Nothing that was shown ends sooner: replicas that share a disturbance share it from time to time.
const LINGERS: Duration = Duration::from_secs(3600);

/// Looks at the evidence, and notes in `memory` what begins and what ends.
pub(crate) fn diagnose(evidence: &mut Evidence<'_>, memory: &mut Memory) -> Vec<Diagnosis> {
    let findings = &mut memory.findings;
    let now = evidence.now;
    let mut told = Vec::new();
    let mut tell = |reason, said: &mut Option<Said>, look: Option<Look>, lingers, advice: &str| {
        *said = Said::after(*said, look.as_ref().map(|look| look.outcome), lingers, now);
        if said.is_some() {
            let numbers = look.map_or_else(|| "nothing to measure it on now".to_owned(), |look| look.numbers);
            told.push(Diagnosis {
                reason,
                message: format!("{numbers}; {advice}"),
            });
        }
    };
    let look = estimate_disagrees::look(
        evidence,
        findings.estimate_disagrees.is_some(),
        &mut findings.strikes,
    );
    tell(
        DiagnosisReason::EstimateDisagrees,
        &mut findings.estimate_disagrees,
        look,
        Duration::ZERO,
        estimate_disagrees::ADVICE,
    );
    // Counters of other calls say nothing about these.
    evidence.counters_agree = findings.estimate_disagrees.is_none();
    tell(
        DiagnosisReason::SlowTogether,
        &mut findings.slow_together,
        slow_together::look(evidence),
        LINGERS,
        slow_together::ADVICE,
    );
    tell(
        DiagnosisReason::RequestBound,
        &mut findings.request_bound,
        request_bound::look(evidence),
        LINGERS,
        request_bound::ADVICE,
    );
    too_slow::note(evidence, &mut findings.usual);
    tell(
        DiagnosisReason::TooSlow,
        &mut findings.too_slow,
        too_slow::look(evidence, findings.usual),
        Duration::ZERO,
        too_slow::ADVICE,
    );
    let no_benefit = no_benefit::note(evidence, &mut findings.no_benefit);
    told.extend(no_benefit.map(|message| Diagnosis {
        reason: DiagnosisReason::NoBenefit,
        message,
    }));
    told.sort_by_key(|diagnosis| diagnosis.reason);
    told
}

/// What a reading's own diagnoses say of how it is to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreseen {
    /// Clients count the calls that the latency metric measures, as far as is known.
    pub(crate) counters_agree: bool,
    /// Replicas are slow at the same time.
    pub(crate) slow_together: bool,
}

impl Default for Foreseen {
    fn default() -> Self {
        Self {
            counters_agree: true,
            slow_together: false,
        }
    }
}

/// What [`diagnose`] will say of a reading that was `seen`, for all that `memory` does not note it yet: so that a decision
/// taken again is the same.
pub(crate) fn foresee(
    rules: &Rules,
    tallies: &[Tally],
    seen: &Observed,
    memory: &Memory,
    now: Timestamp,
) -> Foreseen {
    let mut evidence = Evidence::new(rules, tallies, Ok(seen), &memory.history, now);
    let mut findings = memory.findings;
    let said = |before, look: Option<Look>, lingers| {
        Said::after(before, look.map(|look| look.outcome), lingers, now).is_some()
    };
    let look = estimate_disagrees::look(
        &evidence,
        findings.estimate_disagrees.is_some(),
        &mut findings.strikes,
    );
    evidence.counters_agree = !said(findings.estimate_disagrees, look, Duration::ZERO);
    let look = slow_together::look(&evidence);
    Foreseen {
        counters_agree: evidence.counters_agree,
        slow_together: said(findings.slow_together, look, LINGERS),
    }
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
