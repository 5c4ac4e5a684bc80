//! What systems that have no budget for hedges are told.
//!
//! Off stays what is told while the budget ramps up: where nothing can be given a quarter of a budget, hedging comes when it
//! may have the whole one. It also spares people the steps.

use hedgerow_tuner::Reason;

use super::hedge::Hedge;
use super::place::Place;
use super::{Part, RenderError};

/// What each part is told; `None` is off.
pub(super) fn told<P: Place>(parts: &[Part<P>]) -> Result<Vec<Option<Hedge>>, RenderError> {
    let hedges = Hedge::of_all(parts)?.into_iter().zip(parts);
    Ok(hedges
        .map(|(hedge, part)| hedge.filter(|_| has_whole_budget(part)))
        .collect())
}

/// What each place is told, once.
///
/// A target that hedges in a place that `check` refuses is refused. One that is off there is left out: nothing hedges in a
/// place that cannot be, and off must not be held up.
pub(super) fn told_places<P: Place>(
    parts: &[Part<P>],
    check: impl Fn(&Part<P>) -> Result<(), RenderError>,
) -> Result<Vec<(&P, Option<Hedge>)>, RenderError> {
    let hedges = Hedge::of_all(parts)?;
    let mut told: Vec<(&P, Option<Hedge>)> = Vec::new();
    for (part, hedge) in parts.iter().zip(hedges) {
        match check(part) {
            Err(refused) if hedge.is_some() => return Err(refused),
            Err(_) => {}
            // Both are off.
            Ok(()) if told.iter().any(|(place, _)| place.is_same(&part.place)) => {}
            Ok(()) => told.push((&part.place, hedge.filter(|_| has_whole_budget(part)))),
        }
    }
    Ok(told)
}

/// The same for a document with one place: the target that hedges, or `None`, which is off.
pub(super) fn told_one<P: Place>(
    parts: &[Part<P>],
    check: impl Fn(&Part<P>) -> Result<(), RenderError>,
) -> Result<Option<(&Part<P>, Hedge)>, RenderError> {
    let hedges = Hedge::of_all(parts)?;
    let told = parts
        .iter()
        .zip(hedges)
        .find_map(|(part, hedge)| Some((part, hedge?)));
    if let Some((part, _)) = told {
        check(part)?;
    }
    Ok(told.filter(|(part, _)| has_whole_budget(part)))
}

fn has_whole_budget<P>(part: &Part<P>) -> bool {
    part.orders.reason == Reason::Tuned
}
