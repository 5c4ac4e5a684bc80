//! What a change of a decision means for the order of writes. Pure.

use std::collections::BTreeSet;

use hedgerow_tuner::{Decision, DiagnosisReason, Orders};

use crate::cluster::Lane;

/// The lane for telling clients `after` where they were told `before`: off, a smaller budget and a longer delay go first.
pub(super) fn lane(before: Option<&Orders>, after: &Orders) -> Lane {
    let safer = after.hedging.is_none() || before.is_some_and(|before| after.are_safer_than(before));
    if safer { Lane::Safe } else { Lane::Document }
}

/// Whether clients who are told `after` instead of `before` hedge more, sooner, or at all.
pub(super) fn raises(before: &Orders, after: &Orders) -> bool {
    match (before.hedging, after.hedging) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(before), Some(after)) => {
            after.percent > before.percent
                || after.min_per_second > before.min_per_second
                || after.delay_ms < before.delay_ms
        }
    }
}

/// Whether two decisions differ in what is diagnosed; other numbers for the same are no difference.
pub(super) fn diagnosed_otherwise(before: &Decision, after: &Decision) -> bool {
    let reasons = |decision: &Decision| -> BTreeSet<DiagnosisReason> {
        decision
            .diagnoses
            .iter()
            .map(|diagnosis| diagnosis.reason)
            .collect()
    };
    reasons(before) != reasons(after)
}

#[cfg(test)]
mod tests {
    use hedgerow_tuner::{Hedging, Reason};

    use super::*;
    use crate::fixtures::{at, index, policy, read, sample};

    fn on(delay_ms: f64, percent: f64) -> Orders {
        Orders {
            hedging: Some(Hedging {
                delay_ms,
                min_remaining_ms: 1.0,
                percent,
                min_per_second: 0.0,
            }),
            reason: Reason::Tuned,
        }
    }

    fn off() -> Orders {
        Orders {
            hedging: None,
            reason: Reason::Saturated,
        }
    }

    #[test]
    fn the_safe_direction_goes_first() {
        assert_eq!(lane(Some(&on(500.0, 10.0)), &off()), Lane::Safe);
        assert_eq!(lane(Some(&on(500.0, 10.0)), &on(500.0, 5.0)), Lane::Safe);
        assert_eq!(lane(Some(&on(500.0, 10.0)), &on(600.0, 10.0)), Lane::Safe);
        assert_eq!(lane(None, &off()), Lane::Safe);
    }

    #[test]
    fn who_did_not_hedge_cannot_hedge_less() {
        assert!(off().are_safer_than(&on(500.0, 10.0)));
        assert!(on(600.0, 10.0).are_safer_than(&on(500.0, 10.0)));
        assert!(!off().are_safer_than(&off()));
        assert!(!on(500.0, 10.0).are_safer_than(&off()));
        assert!(!on(500.0, 10.0).are_safer_than(&on(500.0, 10.0)));
    }

    #[test]
    fn what_hedges_more_waits() {
        assert_eq!(lane(Some(&off()), &on(500.0, 2.5)), Lane::Document);
        assert_eq!(lane(Some(&on(500.0, 5.0)), &on(500.0, 10.0)), Lane::Document);
        assert_eq!(lane(Some(&on(500.0, 5.0)), &on(600.0, 10.0)), Lane::Document);
        assert_eq!(lane(Some(&on(500.0, 10.0)), &on(400.0, 10.0)), Lane::Document);
    }

    #[test]
    fn any_way_of_hedging_more_is_a_raise() {
        assert!(raises(&off(), &on(500.0, 2.5)));
        assert!(raises(&on(500.0, 10.0), &on(400.0, 5.0)));
        assert!(raises(&on(500.0, 5.0), &on(600.0, 10.0)));
        assert!(!raises(&on(500.0, 5.0), &on(600.0, 5.0)));
        assert!(!raises(&on(500.0, 5.0), &off()));
    }

    #[test]
    fn a_diagnosis_is_news_and_its_numbers_are_not() {
        let index = index();
        sample(&index, at(0), |now| read(now, 3.0));
        let view = index.view(&policy()).unwrap().remove(0);
        let decision = view.decision.unwrap();
        let with = |message: &str| Decision {
            diagnoses: vec![hedgerow_tuner::Diagnosis {
                reason: DiagnosisReason::TooSlow,
                message: message.to_owned(),
            }],
            ..decision.clone()
        };
        assert!(diagnosed_otherwise(&decision, &with("p50 is 2 s")));
        assert!(!diagnosed_otherwise(&with("p50 is 2 s"), &with("p50 is 3 s")));
    }
}
