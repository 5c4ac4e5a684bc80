//! What one observation of the histogram is: a call, an attempt, a request as the server sees it.

use hedgerow_tuner::{
    Counts, Histogram, LimitedBy, Measures, Memory, Reason, Rules, UnknownReason, WindowCounts,
    WindowReading, decide,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::{Target, hedged, help_desk, histogram, many, rules_without_signals, secs, window};

const INF: f64 = f64::INFINITY;
const ATTEMPT: Measures = Measures::Attempt { losers_run_on: false };

fn measuring(measures: Measures) -> Rules {
    Rules {
        measures,
        ..rules_without_signals()
    }
}

fn reading(answered: Histogram, cancelled: Option<Histogram>) -> Vec<WindowReading> {
    vec![WindowReading {
        cancelled,
        ..window(600, Ok(answered))
    }]
}

fn counted(target: &mut Target, hedges: f64, blocked: Option<f64>) {
    target.readings.counts = Some(Counts {
        at: target.now,
        windows: Ok(vec![WindowCounts {
            window: secs(600),
            calls: 100_000.0,
            hedges,
            blocked,
            wins: None,
        }]),
    });
}

/// 100 000 attempts that answered and 5500 that were cut short, all of those in the bucket beyond 0.5 s.
fn with_cut_short() -> Vec<WindowReading> {
    let answered = [
        (0.15, 500.0),
        (0.3, 800.0),
        (0.5, 970.0),
        (1.0, 990.0),
        (INF, 1000.0),
    ];
    let cancelled = [(0.15, 0.0), (0.3, 0.0), (0.5, 0.0), (1.0, 55.0), (INF, 55.0)];
    reading(many(&histogram(&answered)), Some(many(&histogram(&cancelled))))
}

#[test]
fn attempts_that_were_cut_short_are_censored() {
    // Of 1055 attempts, a hundred times, 85 are unanswered at 0.5 s: 8.06 %. In (.5, 1] of 85 - 27.5 exposed 20 answer: S(1) = 5.25 %.
    let mut target = Target::new(measuring(ATTEMPT));
    target.windows(with_cut_short());
    let decision = target.decide();
    assert_eq!(
        decision.latency.unknown.unwrap().reason,
        UnknownReason::AboveTopBucket
    );
    assert_eq!(decision.reason, Reason::AboveMax);
    // At q = 0.94 the percentile lies between: 85/1055 (1 - x 20/57.5) = 6 %, .5 + .5 x.
    target.rules.delay.quantile = 0.94;
    let x = (1.0 - 0.06 * 1055.0 / 85.0) * 57.5 / 20.0;
    let decision = target.after(1);
    assert!(
        (decision.recommended_ms.unwrap() - 500.0 * (1.0 + x)).abs() < 1e-9,
        "{decision:?}"
    );
    assert_eq!(decision.latency.samples, Some(105_500.0));
    let (least, most) = decision.latency.percentile_ms.unwrap();
    assert!(least < 867.0 && most > 867.0, "{least}..{most}");
}

#[test]
fn attempts_that_callers_cancel_are_cut_short_though_losers_run_on() {
    let recommended = |measures, quantile| {
        let mut rules = measuring(measures);
        rules.delay.quantile = quantile;
        let mut target = Target::new(rules);
        target.windows(with_cut_short());
        target.decide().recommended_ms
    };
    let run_on = Measures::Attempt { losers_run_on: true };
    assert!(recommended(run_on, 0.94).is_some());
    assert_eq!(recommended(run_on, 0.94), recommended(ATTEMPT, 0.94));
    // Requests as a server sees them end when it ends them. p95 of the 1000 that answered: rank 950 of 800..970 in (.3, .5].
    let expected = 300.0 + 200.0 * 150.0 / 170.0;
    let of_server = recommended(Measures::Server, 0.95).unwrap();
    assert!((of_server - expected).abs() < 1e-9, "{of_server}");
}

#[test]
fn an_attempts_latency_is_its_own_however_it_was_hedged() {
    // A call that was hedged hides what its attempt would have taken; an attempt does not: p99 falls from 3 to 1 s when the
    // service is faster, with no share of the calls guessed.
    let mut target = Target::tuned(measuring(ATTEMPT));
    target.latency(many(&help_desk()));
    let decision = target.after(30);
    assert_eq!(decision.recommended_ms, Some(500.0));
    // Effects are predicted from the attempt: 2 % miss 1 s, hedged at 0.5 s 0.02 x (1 - (1 - 0.05)).
    let missed = decision.effect.miss_share_unhedged.unwrap();
    assert!((missed - (1.0 - 0.98_f64.powi(8))).abs() < 1e-9, "{missed}");
    let missed = decision.effect.miss_share_hedged.unwrap();
    assert!((missed - (1.0 - 0.999_f64.powi(8))).abs() < 1e-9, "{missed}");
}

#[test]
fn hedges_counted_and_nothing_ever_cut_short_is_unknown() {
    let mut target = Target::tuned(measuring(ATTEMPT));
    let held = target.hedging();
    target.windows(reading(help_desk(), None));
    counted(&mut target, 19.0, None);
    assert_eq!(target.after(30).latency.unknown, None);
    target.windows(reading(help_desk(), None));
    counted(&mut target, 20.0, None);
    let decision = target.after(0);
    assert_eq!((decision.reason, decision.orders.hedging), (Reason::Held, held));
    let why = decision.latency.unknown.unwrap();
    assert_eq!(why.reason, UnknownReason::CensoringUnseen);
    assert!(
        why.message.starts_with("20 hedges in 10m and no attempt"),
        "{why}"
    );
    // Losers that run on are seen in full.
    target.rules.measures = Measures::Attempt { losers_run_on: true };
    assert_eq!(target.after(0).latency.unknown, None);
}

#[test]
fn the_delay_does_not_fall_while_what_is_cut_short_may_be_unseen() {
    // Half the latency, as far as attempts are seen; nothing says whether clients hedge. 50 of them passed the delay.
    let faster = [
        (0.075, 500.0),
        (0.15, 800.0),
        (0.25, 950.0),
        (0.5, 996.0),
        (1.0, 1000.0),
        (INF, 1000.0),
    ];
    let mut target = Target::tuned(measuring(ATTEMPT));
    target.windows(reading(many(&histogram(&faster)), None));
    let decision = target.run(600, 30);
    assert_eq!(decision.orders.hedging.unwrap().delay_ms, 500.0);
    assert_eq!(decision.limited_by, Some(LimitedBy::HoldBand));
    assert!(
        decision
            .low_confidence
            .unwrap()
            .contains("no attempt was seen to be cut short")
    );
    // With some that were, or when hardly any attempt runs as long as the delay, it follows.
    let cancelled = histogram(&[(0.25, 0.0), (0.5, 1000.0), (INF, 1000.0)]);
    let mut seeing = target_at(&target);
    seeing.windows(reading(many(&histogram(&faster)), Some(cancelled)));
    assert!(seeing.run(600, 30).orders.hedging.unwrap().delay_ms < 400.0);
    let much_faster = [
        (0.075, 500.0),
        (0.15, 950.0),
        (0.25, 1000.0),
        (0.5, 1000.0),
        (INF, 1000.0),
    ];
    target.windows(reading(many(&histogram(&much_faster)), None));
    let delay_ms = target.run(600, 30).orders.hedging.unwrap().delay_ms;
    assert!((150.0..160.0).contains(&delay_ms), "{delay_ms}");
}

fn target_at(target: &Target) -> Target {
    Target {
        rules: target.rules.clone(),
        memory: target.memory.clone(),
        readings: target.readings.clone(),
        ..*target
    }
}

#[test]
fn a_server_is_immune_to_hedging_and_does_not_see_the_network() {
    let mut target = Target::tuned(measuring(Measures::Server));
    assert!(target.decide().low_confidence.unwrap().contains("network"));
    target.rules.delay.add = std::time::Duration::from_millis(20);
    target.latency(many(&help_desk()));
    let decision = target.after(30);
    assert_eq!(decision.recommended_ms, Some(520.0));
    assert_eq!(decision.low_confidence, None);
    target.rules.delay.add = std::time::Duration::ZERO;
    target.rules.counted = true;
    assert_eq!(target.after(30).low_confidence, None);
}

#[test]
fn timeouts_count_whatever_an_observation_is() {
    // (20 + 80) of 1080 are unanswered at 1 s, so p95 is at least that.
    for measures in [Measures::LogicalCall, ATTEMPT, Measures::Server] {
        let mut target = Target::new(measuring(measures));
        let mut windows = reading(help_desk(), None);
        windows[0].timeouts = Some(80.0);
        target.windows(windows);
        let decision = target.decide();
        assert_eq!(decision.reason, Reason::AboveMax, "{measures:?}");
        assert_eq!(decision.latency.samples, Some(1080.0));
    }
}

#[test]
fn the_share_that_clients_count_replaces_the_most_that_the_budget_allows() {
    // The service got half as slow again; of the calls past 0.5 s a tenth were hedged: the rest is as it was.
    let slower = many(&crate::support::scaled_help_desk(1.5));
    let recommended = |counts: Option<(f64, Option<f64>)>| {
        let mut target = Target::tuned(rules_without_signals());
        target.latency(hedged(&slower, 0.5, 0.1));
        if let Some((hedges, blocked)) = counts {
            counted(&mut target, hedges, blocked);
        }
        target.after(30).recommended_ms.unwrap()
    };
    // p95 is 0.75 s. A budget of 10 % could have hedged 0.10 / 0.125 of the calls past 0.5 s, and hidden much more.
    let budget_only = recommended(None);
    let measured = recommended(Some((1250.0, Some(11_250.0))));
    assert!(budget_only > 850.0, "{budget_only}");
    assert!((720.0..790.0).contains(&measured), "{measured}");
    // What was blocked is not known: as without counters.
    assert_eq!(recommended(Some((1250.0, None))), budget_only);
    // Few say little, though their share is the same.
    assert!(recommended(Some((1.0, Some(1.0)))) > measured);
    assert!(recommended(Some((1.0, Some(9.0)))) > measured);
}

#[test]
fn a_share_counted_over_a_longer_window_says_nothing_of_this_one() {
    // Of the calls past 0.5 s 0.8 were hedged in the last ten minutes, as many as the budget of 10 % lets be, and in the hour
    // a tenth. What an hour's share would leave hidden is no less than what is hidden.
    let slower = many(&crate::support::scaled_help_desk(1.5));
    let recommended = |counts: &[(u64, f64)]| {
        let mut target = Target::tuned(rules_without_signals());
        target.latency(hedged(&slower, 0.5, 0.8));
        let windows = counts.iter().map(|&(window, share)| WindowCounts {
            window: secs(window),
            calls: 100_000.0,
            hedges: 12_500.0 * share,
            blocked: Some(12_500.0 * (1.0 - share)),
            wins: None,
        });
        target.readings.counts = Some(Counts {
            at: target.now,
            windows: Ok(windows.collect()),
        });
        target.after(30).recommended_ms.unwrap()
    };
    let both = recommended(&[(600, 0.8), (3600, 0.1)]);
    assert!((720.0..800.0).contains(&both), "{both}");
    assert!(recommended(&[(3600, 0.1)]) >= both);
    assert_eq!(recommended(&[(3600, 0.1)]), recommended(&[]));
}

#[test]
fn to_know_of_the_cut_short_never_shortens_a_delay() {
    let mut rng = StdRng::seed_from_u64(5);
    let mut target = Target::new(measuring(ATTEMPT));
    (
        target.rules.delay.quantile,
        target.rules.windows.min_samples,
        target.rules.deadline,
    ) = (0.75, 1, None);
    let bounds = [0.01, 0.02, 0.05, 0.1, 0.15, 0.4, 1.0, INF];
    let mut counts = || {
        let mut below = 1.0;
        let buckets = bounds.map(|bound| {
            below += f64::from(rng.random_range(0..20_u32));
            (bound, below)
        });
        histogram(&buckets)
    };
    for _ in 0..100_000 {
        let answered = counts();
        let mut recommended = |measures, cancelled| {
            target.rules.measures = measures;
            target.windows(reading(answered.clone(), cancelled));
            let (decision, _) = decide(&target.rules, &Memory::default(), &target.readings, target.now);
            decision.recommended_ms
        };
        let naive = recommended(Measures::Attempt { losers_run_on: true }, None);
        // Where it is only a bound, no delay is recommended.
        match (naive, recommended(ATTEMPT, Some(counts()))) {
            (Some(naive), Some(known)) => assert!(known >= naive * (1.0 - 1e-12), "{naive}, then {known}"),
            (naive, known) => assert!(naive.is_some() || known.is_none(), "{known:?}"),
        }
    }
}
