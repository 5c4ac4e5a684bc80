//! How far back a quiet service is looked at.

use std::time::Duration;

use crate::Windows;

/// The windows of a policy, narrowest first: 1, 2, 4 ... times `window`, then exactly `maxWindow`.
pub(crate) fn ladder(windows: &Windows) -> Vec<Duration> {
    let mut ladder = vec![windows.window];
    let mut next = windows.window.saturating_mul(2);
    while !windows.window.is_zero() && next < windows.max_window {
        ladder.push(next);
        next = next.saturating_mul(2);
    }
    if windows.max_window > windows.window {
        ladder.push(windows.max_window);
    }
    ladder
}

/// The index of the window to use among `(window, calls)`, narrowest first; `None` when none holds enough.
///
/// In at `minSamples`, out at 0.7 of it, narrower again at 1.5 of it: so that a rate near a limit does not swing.
pub(crate) fn choose(
    counts: &[(Duration, f64)],
    current: Option<Duration>,
    min_samples: u32,
) -> Option<usize> {
    let enough = f64::from(min_samples.max(1));
    let first_with = |least: f64| counts.iter().position(|&(_, calls)| calls >= least);
    let current = current.and_then(|current| counts.iter().position(|&(window, _)| window == current));
    let Some(current) = current.filter(|&index| counts[index].1 >= 0.7 * enough) else {
        return first_with(enough);
    };
    Some(first_with(1.5 * enough).map_or(current, |narrower| narrower.min(current)))
}

/// The windows to ask for next: those up to the one in use, one more when that runs short, and when none holds enough
/// those up to the first that the narrowest one's rate would fill.
pub(crate) fn wanted(
    ladder: &[Duration],
    counts: &[(Duration, f64)],
    chosen: Option<usize>,
    min_samples: u32,
) -> Vec<Duration> {
    let enough = f64::from(min_samples.max(1));
    let last = match (chosen.and_then(|index| counts.get(index)), counts.last()) {
        (Some(&(window, calls)), _) => {
            let wider = usize::from(calls < enough);
            ladder
                .iter()
                .position(|&rung| rung >= window)
                .map_or(0, |index| index + wider)
        }
        (None, Some(&(window, calls))) => {
            let rate = calls / window.as_secs_f64().max(f64::MIN_POSITIVE);
            let fills = |rung: &Duration| *rung > window && rate * rung.as_secs_f64() >= enough;
            ladder.iter().position(fills).unwrap_or(ladder.len())
        }
        (None, None) => 0,
    };
    ladder.iter().copied().take(last.saturating_add(1)).collect()
}
