//! The page, from what is seen. Pure. Everything that others wrote is escaped by the templates.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use hedgerow_tuner::{Decision, Mode, SignalView, SwitchState, Timestamp, WindowCounts};
use maud::{DOCTYPE, Markup, html};

use super::chart::chart;
use super::trail::Point;
use crate::cluster::{PolicyKey, Watched};
use crate::index::{TargetKey, TargetView};
use crate::words;

/// The query that asks for a page that renews itself.
pub(super) const LIVE: &str = "live=true";

/// Everything that is shown.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    /// The id of this install.
    pub(super) instance: &'a str,
    /// Whether this replica leads: one that does not has decided nothing.
    pub(super) leads: bool,
    pub(super) policies: &'a [(PolicyKey, Vec<TargetView>)],
    pub(super) watches: &'a [Watched],
    pub(super) trails: &'a BTreeMap<TargetKey, VecDeque<Point>>,
    pub(super) now: Timestamp,
    /// How often the page renews itself; `None`: it does not.
    pub(super) renewed: Option<Duration>,
}

/// How a target is hedged, as it is shown: a class, and words for who does not see colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hedging,
    Ramping,
    Off,
    Waiting,
}

impl State {
    fn of(decision: Option<&Decision>) -> Self {
        let Some(decision) = decision else {
            return Self::Waiting;
        };
        match (decision.orders.hedging, decision.switch) {
            (None, _) => Self::Off,
            (Some(_), SwitchState::Ramping { .. }) => Self::Ramping,
            (Some(_), _) => Self::Hedging,
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Hedging => "hedging",
            Self::Ramping => "ramping",
            Self::Off => "off",
            Self::Waiting => "waiting",
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Hedging => "hedging",
            Self::Ramping => "coming back",
            Self::Off => "off",
            Self::Waiting => "not read yet",
        }
    }
}

/// The whole page.
pub(super) fn page(seen: &Seen<'_>) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                @if let Some(period) = seen.renewed {
                    meta http-equiv="refresh" content=(period.as_secs());
                }
                title { "Hedgerow: " (seen.instance) }
                link rel="stylesheet" href="style.css";
            }
            body {
                header { (head(seen)) }
                main {
                    (warnings(seen))
                    @if seen.policies.is_empty() {
                        p.empty { (nothing(seen)) }
                    } @else {
                        (overview(seen))
                        @for (policy, targets) in seen.policies {
                            (details(seen, policy, targets))
                        }
                    }
                }
                footer {
                    "Nothing can be changed here. To stop hedging, create a ConfigMap named " code { "hedgerow-off" } "."
                }
            }
        }
    }
}

fn head(seen: &Seen<'_>) -> Markup {
    html! {
        h1 { "Hedgerow" }
        p.meta {
            span { "version " (env!("CARGO_PKG_VERSION")) }
            span { "install " (seen.instance) }
            span { @if seen.leads { "leads" } @else { "stands by" } }
            span { "as of " time { (words::time(seen.now).0) } }
            @if let Some(period) = seen.renewed {
                a href="?" { "renewed every " (period.as_secs()) " s: stop" }
            } @else {
                a href=(format!("?{LIVE}")) { "keep renewing" }
            }
        }
    }
}

fn nothing(seen: &Seen<'_>) -> &'static str {
    if seen.leads {
        "No policy is followed: there is none, or none is valid. kubectl get hp -A shows which."
    } else {
        "This replica does not lead, so it has decided nothing. Ask the one that holds the Lease: kubectl get lease."
    }
}

/// What makes all the rest doubtful.
fn warnings(seen: &Seen<'_>) -> Markup {
    let failing = seen
        .watches
        .iter()
        .filter_map(|watch| Some((watch, watch.error.as_ref()?)));
    html! {
        @for (watch, error) in failing {
            p.warning role="alert" {
                strong { "The watch of " (watch.name()) " fails." } " " (error)
            }
        }
    }
}

fn overview(seen: &Seen<'_>) -> Markup {
    html! {
        div.wide {
            table.overview {
                caption { "Targets" }
                thead { tr {
                    th scope="col" { "policy" } th scope="col" { "target" } th scope="col" { "hedging" }
                    th.number scope="col" { "delay" } th.number scope="col" { "budget" } th scope="col" { "reason" }
                } }
                tbody {
                    @for (policy, targets) in seen.policies {
                        @for target in targets {
                            @let decision = target.decision.as_ref();
                            @let hedging = decision.and_then(|decision| decision.orders.hedging);
                            tr {
                                th scope="row" { a href=(format!("#{policy}")) { (policy) } }
                                td { (target.name) }
                                td { (badge(State::of(decision))) }
                                td.number { (known(hedging.map(|hedging| words::millis(hedging.delay_ms)))) }
                                td.number { (known(hedging.map(|hedging| words::percent(hedging.percent)))) }
                                td { (known(decision.map(|decision| decision.reason.as_str().to_owned()))) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn badge(state: State) -> Markup {
    html! { span class=(format!("badge {}", state.class())) { (state.words()) } }
}

/// What there is, or a dash.
fn known(value: Option<String>) -> Markup {
    html! {
        @match value {
            Some(value) => (value),
            None => span.unknown title="not known, or off" { "–" },
        }
    }
}

fn details(seen: &Seen<'_>, policy: &PolicyKey, targets: &[TargetView]) -> Markup {
    let mode = targets.first().map_or("", |target| match target.rules.mode {
        Mode::Enforce => "",
        Mode::Observe => "Observe: clients are told off",
        Mode::Disabled => "Disabled",
    });
    html! {
        section id=(policy.to_string()) {
            h2 { (policy) @if !mode.is_empty() { " " span.badge { (mode) } } }
            @for target in targets {
                article {
                    (of_target(seen, policy, target))
                }
            }
        }
    }
}

fn of_target(seen: &Seen<'_>, policy: &PolicyKey, target: &TargetView) -> Markup {
    let key = TargetKey {
        policy: policy.clone(),
        target: target.name.clone(),
    };
    let none = VecDeque::new();
    let trail = seen.trails.get(&key).unwrap_or(&none);
    html! {
        h3 { (target.name) " " (badge(State::of(target.decision.as_ref()))) }
        @match &target.decision {
            None => p { "Waiting for the first reading." },
            Some(decision) => {
                @let message = decision.message.to_string();
                p.why {
                    strong { (decision.reason.as_str()) }
                    @if !message.is_empty() { ": " (message) }
                }
                (numbers(target, decision))
                @if let Some(chart) = chart(&target.name, trail, seen.now) {
                    figure {
                        (chart)
                        figcaption {
                            span.key.used { "delay in use" }
                            span.key.asked { "delay that the percentile asks for" }
                            span.key.off { "off" }
                            span.key.ramping { "coming back" }
                        }
                    }
                }
                (signals(&decision.signals))
                @if let Some(doubt) = &decision.low_confidence {
                    p.note { strong { "Little confidence" } ": " (doubt) }
                }
                @for diagnosis in &decision.diagnoses {
                    p.note { strong { (diagnosis.reason.as_str()) } ": " (diagnosis.message) }
                }
            }
        }
    }
}

fn numbers(target: &TargetView, decision: &Decision) -> Markup {
    let hedging = decision.orders.hedging;
    let latency = &decision.latency;
    let counted = decision.counts.as_ref().and_then(|counts| counts.windows.first());
    let limited = decision.limited_by.map(|limit| format!(", {}", limit.as_str()));
    let asked = decision.recommended_ms.map(words::millis);
    let pair = |name: &str, value: Option<String>| html! { div { dt { (name) } dd { (known(value)) } } };
    html! {
        dl {
            (pair("delay", hedging.map(|hedging| words::millis(hedging.delay_ms))))
            (pair("asked for", asked.map(|asked| format!("{asked}{}", limited.unwrap_or_default()))))
            (pair("budget", hedging.map(|hedging| budget(hedging.percent, target.rules.budget.percent))))
            (pair("hedged", counted.and_then(WindowCounts::hedged).map(words::share)))
            (pair("won", counted.and_then(WindowCounts::won).map(words::share)))
            (pair("p50", latency.p50_ms.map(words::millis)))
            (pair("p95", latency.p95_ms.map(words::millis)))
            (pair("p99", latency.p99_ms.map(words::millis)))
            (pair("calls read", latency.samples.map(words::number)))
        }
        @if let Some(unknown) = &latency.unknown {
            p.note { strong { "Latency unknown" } ": " (unknown) }
        }
    }
}

/// What is in use, and of what while it is a part.
fn budget(percent: f64, cap: f64) -> String {
    if percent < cap {
        format!("{} of {}", words::percent(percent), words::percent(cap))
    } else {
        words::percent(percent)
    }
}

fn signals(signals: &[SignalView]) -> Markup {
    if signals.is_empty() {
        return html! { p.note { strong { "No saturation signal" } ": nothing turns hedging off under load." } };
    }
    html! {
        div.wide {
            table {
                caption { "Saturation signals" }
                thead { tr {
                    th scope="col" { "signal" } th.number scope="col" { "value" } th.number scope="col" { "off above" }
                    th.number scope="col" { "back under" } th scope="col" { "says" }
                } }
                tbody {
                    @for signal in signals {
                        tr {
                            th scope="row" { (signal.name) }
                            td.number { (known(signal.value.map(words::number))) }
                            td.number { (known(signal.off_above.map(words::number))) }
                            td.number { (known(signal.on_below.map(words::number))) }
                            td { (says(signal)) }
                        }
                    }
                }
            }
        }
    }
}

fn says(signal: &SignalView) -> Markup {
    html! {
        @if let Some(unknown) = &signal.unknown {
            span.badge.waiting { "unknown" } " " (unknown)
        } @else if signal.saturated {
            span.badge.off { "saturated" }
        } @else {
            span.badge.hedging { "below its line" }
        }
    }
}
