//! What a person carries on, to a system that has no budget for hedges.

use hedgerow_tuner::Reason;

use super::hedge::Hedge;
use super::{Part, RenderError};

/// What each part is told; `None` is off.
///
/// Off stays what is told while the budget ramps up: where nothing can be given a quarter of a budget, hedging comes when it
/// may have the whole one. It also spares people the steps.
pub(super) fn told<P>(
    parts: &[Part<P>],
    same_place: impl Fn(&P, &P) -> bool,
) -> Result<Vec<Option<Hedge>>, RenderError> {
    let hedges = Hedge::of_all(parts, same_place)?;
    let told = hedges.into_iter().zip(parts);
    Ok(told
        .map(|(hedge, part)| hedge.filter(|_| part.orders.reason == Reason::Tuned))
        .collect())
}

/// The same for a document with one place: the part that hedges; `None` is off.
pub(super) fn told_one<P>(parts: &[Part<P>]) -> Result<Option<(&Part<P>, Hedge)>, RenderError> {
    let told = told(parts, |_, _| true)?;
    Ok(parts
        .iter()
        .zip(told)
        .find_map(|(part, hedge)| Some((part, hedge?))))
}
