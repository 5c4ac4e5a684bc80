//! Checks of a target.

use std::time::Duration;

use super::at::At;
use super::{latency, saturation};
use crate::{Budget, Delay, HedgingCounters, Measures, NoBenefit, Target, limits, rules};

pub(super) fn check(at: &mut At<'_>, target: &Target) {
    at.field("name").text(&target.name);
    at.field("idempotent")
        .rule(rules::IDEMPOTENT, target.idempotent, Some(&target.idempotent));
    at.field("fanOut").integer(target.fan_out, limits::FAN_OUT);
    let deadline = at
        .field("deadline")
        .optional_duration(target.deadline.as_ref(), limits::DEADLINE);
    latency::check(&mut at.field("latency"), &target.latency);
    check_delay(at, &target.delay, deadline);
    check_network(at, target);
    check_budget(&mut at.field("budget"), &target.budget);
    saturation::check(&mut at.field("saturation"), &target.saturation);
    check_hedging(at, target);
}

/// Latency that is measured at the server leaves out the network.
fn check_network(at: &mut At<'_>, target: &Target) {
    let measures = target.latency.measures;
    let at_server = match (measures, target.latency.known()) {
        (None, Some(preset)) => preset.at_server,
        _ => measures == Some(Measures::Server),
    };
    let add = &target.delay.add;
    let allowed_for = add.parse().map_or(true, |add| !add.is_zero());
    at.rule(
        rules::NETWORK_SEEN,
        !at_server || target.hedging.is_some() || allowed_for,
        Some(add),
    );
}

fn check_hedging(at: &mut At<'_>, target: &Target) {
    let has_wins = match (&target.hedging, target.latency.known()) {
        (Some(counters), _) => counters.wins.is_some(),
        (None, known) => known.is_some_and(|preset| preset.hedging.is_some()),
    };
    at.rule(
        rules::DISABLE_NEEDS_WINS,
        target.no_benefit != NoBenefit::Disable || has_wins,
        None::<&str>,
    );
    let Some(HedgingCounters {
        calls,
        hedges,
        blocked,
        wins,
    }) = &target.hedging
    else {
        return;
    };
    let mut at = at.field("hedging");
    let optional = [("blocked", blocked), ("wins", wins)];
    let given = optional
        .into_iter()
        .filter_map(|(name, counter)| Some((name, counter.as_ref()?)));
    for (name, counter) in [("calls", calls), ("hedges", hedges)].into_iter().chain(given) {
        latency::check_counter(&mut at.field(name), counter);
    }
}

fn check_delay(at: &mut At<'_>, delay: &Delay, deadline: Option<Duration>) {
    let mut at_delay = at.field("delay");
    at_delay
        .field("percentile")
        .decimal(&delay.percentile, limits::PERCENTILE);
    let min = at_delay.field("min").duration(&delay.min, limits::DELAY);
    let max = at_delay
        .field("max")
        .optional_duration(delay.max.as_ref(), limits::DELAY);
    at_delay.field("add").duration(&delay.add, limits::DELAY_ADD);

    let said_min = Some(&delay.min);
    if let (Some(min), Some(max)) = (min, max) {
        at_delay.rule(rules::MIN_WITHIN_MAX, min <= max, said_min);
    }
    if let (Some(max), Some(deadline)) = (max, deadline) {
        at.rule(rules::MAX_WITHIN_DEADLINE, max <= deadline, delay.max.as_ref());
    }
    match (min, deadline) {
        (Some(min), Some(deadline)) => at.rule(rules::MIN_UNDER_DEADLINE, min < deadline, said_min),
        (Some(min), None) => {
            let may_be_long = delay.max.is_some() || min < limits::DELAY_MAX_UNSAID;
            at.rule(rules::LONG_MIN_NEEDS_MAX, may_be_long, said_min);
        }
        (None, _) => {}
    }
}

fn check_budget(at: &mut At<'_>, budget: &Budget) {
    at.field("percent").decimal(&budget.percent, limits::PERCENT);
    at.field("maxAttempts")
        .integer(Some(budget.max_attempts), limits::MAX_ATTEMPTS);
    let mut per_client = at.field("perClient");
    per_client
        .field("maxConcurrent")
        .integer(Some(budget.per_client.max_concurrent), limits::MAX_CONCURRENT);
    per_client
        .field("minPerSecond")
        .text(&budget.per_client.min_per_second);
}
