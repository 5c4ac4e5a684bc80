//! What was decided of each target within the last hour. It is kept only while there is a page to show it on, and lost with the
//! process.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hedgerow_tuner::{Decision, SwitchState, Timestamp};

use crate::cluster::PolicyKey;
use crate::index::{TargetKey, TargetView};

/// So many points of a target: an hour of them.
pub(super) const POINTS: usize = 360;
/// So many targets at most, the first by name: 10 MB of points.
const TARGETS: usize = 500;

/// What was decided at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Point {
    pub(super) at: Timestamp,
    /// The delay in use, in milliseconds; `None` while off.
    pub(super) delay_ms: Option<f64>,
    /// The delay that the percentile asks for.
    pub(super) recommended_ms: Option<f64>,
    /// Whether hedging comes back at a part of its budget.
    pub(super) ramping: bool,
}

/// The points of each target, oldest first. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct Trails(Arc<Mutex<BTreeMap<TargetKey, VecDeque<Point>>>>);

impl Trails {
    /// Keeps a point of each target, and nothing of those that are gone.
    pub(super) fn keep(&self, policies: &[(PolicyKey, Vec<TargetView>)], now: Timestamp) {
        let targets = policies.iter().flat_map(|(policy, targets)| {
            targets.iter().map(|target| {
                let key = TargetKey {
                    policy: policy.clone(),
                    target: target.name.clone(),
                };
                (key, target.decision.as_ref())
            })
        });
        let mut trails = self.lock();
        let mut before = std::mem::take(&mut *trails);
        for (key, decision) in targets.take(TARGETS) {
            let mut trail = before.remove(&key).unwrap_or_default();
            // After a step of the clock back the past lies ahead.
            trail.retain(|point| point.at < now);
            trail.extend(decision.map(|decision| Point::of(decision, now)));
            while trail.len() > POINTS {
                trail.pop_front();
            }
            trails.insert(key, trail);
        }
    }

    pub(super) fn all(&self) -> BTreeMap<TargetKey, VecDeque<Point>> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TargetKey, VecDeque<Point>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Point {
    fn of(decision: &Decision, at: Timestamp) -> Self {
        let hedging = decision.orders.hedging;
        Self {
            at,
            delay_ms: hedging.map(|hedging| hedging.delay_ms),
            recommended_ms: decision.recommended_ms,
            ramping: hedging.is_some() && matches!(decision.switch, SwitchState::Ramping { .. }),
        }
    }
}
