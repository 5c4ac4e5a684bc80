//! Checks of the off-switch.

use super::at::At;
use super::latency::{check_counter, check_preset, check_selector, check_zero_when_absent};
use crate::text::Text;
use crate::{Saturation, Signal, limits, preset, rules};

pub(super) fn check(at: &mut At<'_>, saturation: &Saturation) {
    let mut signals = at.field("signals");
    signals.length(saturation.signals.len(), 0, limits::MAX_SIGNALS);
    signals.unique(saturation.signals.iter().map(|signal| &signal.name));
    for (index, signal) in saturation.signals.iter().enumerate() {
        check_signal(&mut signals.index(index), signal);
    }
    at.field("maxUnknown")
        .duration(&saturation.max_unknown, limits::MAX_UNKNOWN);
    at.field("cooldown")
        .duration(&saturation.cooldown, limits::COOLDOWN);
    at.field("rampStep")
        .duration(&saturation.ramp_step, limits::RAMP_STEP);
}

fn check_signal(at: &mut At<'_>, signal: &Signal) {
    at.field("name").text(&signal.name);
    check_kind(at, signal);
    check_selector(at, &signal.match_labels, &signal.match_expressions);
    at.field("window")
        .optional_duration(signal.window.as_ref(), limits::SIGNAL_WINDOW);
    if let Some(per) = &signal.per {
        check_counter(&mut at.field("per"), per);
    }
    check_line(at, signal);
    at.field("atLeast").integer(signal.at_least, limits::AT_LEAST);
    check_zero_when_absent(at, signal.zero_when_absent.as_ref());
}

/// Which kind of signal it is, and that it has no field of another kind.
fn check_kind(at: &mut At<'_>, signal: &Signal) {
    if let Some(preset) = &signal.preset {
        check_preset(&mut at.field("preset"), preset, &preset::signal_names());
    }
    if let Some(metric) = &signal.metric {
        at.field("metric").text(metric);
    }
    if let Some(counter) = &signal.rate_of {
        at.field("rateOf").text(counter);
    }
    if let Some(alert) = &signal.alert {
        at.field("alert").text(alert);
    }
    let nothing = None::<&str>;
    let kinds = [
        signal.metric.is_some(),
        signal.rate_of.is_some(),
        signal.alert.is_some(),
        signal.preset.is_some(),
    ];
    at.rule(
        rules::ONE_KIND,
        kinds.into_iter().filter(|said| *said).count() == 1,
        nothing,
    );
    at.rule(
        rules::LINE_UNLESS_ALERT,
        signal.preset.is_some() || signal.alert.is_some() != signal.off_above.is_some(),
        nothing,
    );
    at.rule(
        rules::RATE_FIELDS,
        signal.rate_of.is_some() || (signal.window.is_none() && signal.per.is_none()),
        nothing,
    );
    let alone = signal.at_least.is_none()
        && signal.on_below.is_none()
        && signal.match_labels.is_empty()
        && signal.match_expressions.is_empty();
    at.rule(rules::ALERT_ALONE, signal.alert.is_none() || alone, nothing);
    at.rule(
        rules::PRESET_LINES_TOGETHER,
        signal.preset.is_none() || signal.on_below.is_none() || signal.off_above.is_some(),
        nothing,
    );
    let says = |label: &&str| signal.match_labels.0.keys().any(|key| key.as_str() == *label);
    let pinned = signal.known().and_then(|preset| preset.own_labels().find(says));
    at.rule(rules::PRESET_SIGNAL_LABELS_FREE, pinned.is_none(), pinned);
}

/// The line above which hedging goes off, and the one under which it comes back.
fn check_line(at: &mut At<'_>, signal: &Signal) {
    let off_above = signal
        .off_above
        .as_ref()
        .and_then(|line| at.field("offAbove").decimal(line, limits::OFF_ABOVE));
    let on_below = signal
        .on_below
        .as_ref()
        .and_then(|line| at.field("onBelow").decimal(line, limits::ON_BELOW));
    if let (Some(off_above), Some(on_below)) = (off_above, on_below) {
        at.rule(
            rules::ON_BELOW_UNDER_OFF_ABOVE,
            on_below < off_above,
            signal.on_below.as_ref(),
        );
    }
}
