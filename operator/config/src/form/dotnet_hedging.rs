//! The standard hedging handler of .NET, `Microsoft.Extensions.Http.Resilience`.
//!
//! What surprises: a handler of which the settings say nothing hedges, after 2 s. So off has to be said: by a `Delay` below
//! zero, with which a hedge is sent when an attempt fails and never for latency. And settings that break a rule make the host
//! throw, so every rule is checked before anything is written.
//!
//! Sources: the options and validators of
//! [`Microsoft.Extensions.Http.Resilience`](https://github.com/dotnet/extensions/tree/main/src/Libraries/Microsoft.Extensions.Http.Resilience/Hedging)
//! and Polly's [`HedgingStrategyOptions`](https://www.pollydocs.org/strategies/hedging.html).

use std::ops::RangeInclusive;

use super::base::{self, Node};
use super::hedge::Hedge;
use super::place::Place;
use super::time_span::TimeSpan;
use super::told::told;
use super::tree::Tree;
use super::{Part, RenderError};

/// Hedges on failure only.
const OFF: &str = "-00:00:00.0010000";

// What holds where the settings do not say.
const DEFAULT_TOTAL: TimeSpan = TimeSpan::from_millis(30_000);
const DEFAULT_ATTEMPT: TimeSpan = TimeSpan::from_millis(10_000);
const DEFAULT_SAMPLING: TimeSpan = TimeSpan::from_millis(30_000);

/// What the handler accepts as a timeout.
const TIMEOUTS: RangeInclusive<TimeSpan> = TimeSpan::from_millis(10)..=TimeSpan::from_millis(86_400_000);

/// A named HTTP client of .NET.
///
/// On is, in `HttpClients.<name>.Hedging.Hedging`, `MaxHedgedAttempts`, the hedges without the primary, and `Delay` as
/// `hh:mm:ss.fffffff`, to the millisecond, as its timers go no finer. Off is a `Delay` below zero. There is no
/// budget to tell, so it is off while the budget ramps up.
///
/// With a base, only these two change. It must say a `Delay` below zero for the client, else off would hedge. Without one, the
/// deadline stands as `TotalRequestTimeout` and as the timeout of an attempt (half of the circuit breaker's sampling of 30 s
/// at most). Refused is what the host would throw at: an attempt's timeout above the total one, a `SamplingDuration` under
/// twice an attempt's timeout, or hedges x `Delay` above the total timeout. Keys are found as .NET finds them, whatever their
/// case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DotnetClient {
    /// Its name, under `HttpClients`.
    pub client: String,
}

impl Place for DotnetClient {
    fn is_same(&self, other: &Self) -> bool {
        same_key(&self.client, &other.client)
    }
}

pub(super) fn render(parts: &[Part<DotnetClient>], base: Option<&str>) -> Result<String, RenderError> {
    let mut settings = match base {
        Some(base) => base::read_json(base)?,
        None => Tree::map([]),
    };
    let timeouts = parts
        .iter()
        .map(|part| match base {
            Some(_) => Timeouts::of_base(&settings, &part.place.client),
            None => Ok(Timeouts::of_deadline(part)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let hedges = told(parts)?;
    if let Some(base) = base
        && hedges.iter().all(Option::is_none)
    {
        return Ok(base.to_owned());
    }
    for ((part, hedge), timeouts) in parts.iter().zip(&hedges).zip(&timeouts) {
        let client = settings.at(&["HttpClients", &part.place.client, "Hedging"], same_key);
        if base.is_none() {
            timeouts.write(client);
        }
        if let Some(hedge) = hedge {
            timeouts.check(part, hedge)?;
            *client.at(&["Hedging", "MaxHedgedAttempts"], same_key) = hedge.hedges.into();
            *client.at(&["Hedging", "Delay"], same_key) =
                TimeSpan::from_millis(hedge.delay_ms).to_string().into();
        } else if base.is_none() {
            *client.at(&["Hedging", "MaxHedgedAttempts"], same_key) = 1.into();
            *client.at(&["Hedging", "Delay"], same_key) = OFF.into();
        }
    }
    base::written(settings.to_json())
}

/// The timeouts of a client; `None` is left to .NET.
struct Timeouts {
    total: Option<TimeSpan>,
    attempt: Option<TimeSpan>,
}

impl Timeouts {
    fn of_deadline(part: &Part<DotnetClient>) -> Self {
        let deadline = part.limits.deadline_ms().and_then(|ms| u32::try_from(ms).ok());
        let total = deadline
            .map(TimeSpan::from_millis)
            .filter(|total| TIMEOUTS.contains(total));
        let longest_attempt = TimeSpan::from_millis(15_000); // Half of the default sampling.
        let attempt = total.map(|total| total.min(longest_attempt));
        Self { total, attempt }
    }

    /// Those of the base, which has to be one that .NET takes and that does not hedge.
    fn of_base(settings: &Tree, client: &str) -> Result<Self, RenderError> {
        let client = Node::root(settings, same_key)
            .needed("HttpClients", "add the section that your program binds")?
            .needed(client, "add the section of the client, or name another client")?
            .needed("Hedging", "add the section that its hedging handler binds")?;
        let strategy = client.needed("Hedging", &format!("add one with \"Delay\": \"{OFF}\""))?;
        let delay = strategy.needed(
            "Delay",
            &format!("say \"{OFF}\", else .NET hedges after 2 s when off"),
        )?;
        if time(&delay)? >= TimeSpan::ZERO {
            return Err(delay.bad(format!(
                "hedges, but the base is what off looks like: say \"{OFF}\""
            )));
        }
        let of = |path: &[&str], default| client.path(path)?.map_or(Ok(default), |node| time(&node));
        let total = of(&["TotalRequestTimeout", "Timeout"], DEFAULT_TOTAL)?;
        let attempt = of(&["Endpoint", "Timeout", "Timeout"], DEFAULT_ATTEMPT)?;
        let sampling = of(
            &["Endpoint", "CircuitBreaker", "SamplingDuration"],
            DEFAULT_SAMPLING,
        )?;
        if attempt > total {
            return Err(client.bad(format!(
                "lets an attempt take {attempt}, but the whole call {total}, and .NET throws: shorten Endpoint.Timeout.Timeout"
            )));
        }
        if sampling < attempt.times(2) {
            return Err(client.bad(format!(
                "samples failures for {sampling}, under twice the {attempt} of an attempt, and .NET throws: raise \
                 Endpoint.CircuitBreaker.SamplingDuration"
            )));
        }
        Ok(Self {
            total: Some(total),
            attempt: Some(attempt),
        })
    }

    /// The rules that depend on the orders.
    fn check(&self, part: &Part<DotnetClient>, hedge: &Hedge) -> Result<(), RenderError> {
        if let (Some(deadline), None) = (part.limits.deadline, self.total) {
            return Err(part.cannot(format!(
                "a deadline of {deadline:?} is no timeout for .NET: give one from 10 ms on"
            )));
        }
        let total = self.total.unwrap_or(DEFAULT_TOTAL);
        let delay = TimeSpan::from_millis(hedge.delay_ms);
        if delay.times(hedge.hedges) > total {
            return Err(part.cannot(format!(
                "{} x {delay} of delay are more than the whole call may take, {total}, and .NET throws: raise \
                 TotalRequestTimeout, or lower maxAttempts",
                hedge.hedges
            )));
        }
        Ok(())
    }

    fn write(&self, client: &mut Tree) {
        if let Some(total) = self.total {
            *client.at(&["TotalRequestTimeout", "Timeout"], same_key) = total.to_string().into();
        }
        if let Some(attempt) = self.attempt {
            *client.at(&["Endpoint", "Timeout", "Timeout"], same_key) = attempt.to_string().into();
        }
    }
}

fn time(node: &Node<'_>) -> Result<TimeSpan, RenderError> {
    let time = TimeSpan::parse(node.text()?);
    time.ok_or_else(|| node.bad("is no time: write it as hh:mm:ss.fffffff"))
}

/// Keys of settings do not differ by case.
fn same_key(a: &str, b: &str) -> bool {
    a.eq_ignore_ascii_case(b)
}
