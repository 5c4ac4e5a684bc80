//! Ways to hedge that are written in an afternoon.

use std::cell::Cell;
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use futures::future::select;
use tokio::task::spawn_local;
use tokio::time::timeout;

use crate::PROPAGATION;
use crate::calls::Call;
use crate::figures::percentile;
use crate::world::World;

/// A moving delay is the 95th percentile of the calls that ended in this time ...
const WINDOW: f64 = 60.0;
/// ... computed so often, in seconds.
const EVERY: f64 = 30.0;
/// A budget pays a tenth of a hedge for each call.
const SHARE: f64 = 0.1;

/// A delay, and what may be spent.
#[derive(Debug, Default)]
pub(crate) struct Naive {
    /// In seconds; `None` as long as there is none.
    pub(crate) delay: Cell<Option<f64>>,
    /// Hedges saved; `None` without a budget. What is saved is never lost.
    pub(crate) saved: Option<Cell<f64>>,
}

impl Naive {
    /// Makes a call.
    pub(crate) async fn call(&self, world: &World, call: &Call) {
        if let Some(saved) = &self.saved {
            saved.set(saved.get() + SHARE);
        }
        let mut first = pin!(world.send(call, 0));
        let Some(delay) = self.delay.get() else {
            return first.await;
        };
        if timeout(Duration::from_secs_f64(delay), first.as_mut())
            .await
            .is_ok()
        {
            return;
        }
        if self.pays() {
            select(first, pin!(world.send(call, 1))).await;
        } else {
            first.await;
        }
    }

    /// Takes what one hedge costs.
    fn pays(&self) -> bool {
        let Some(saved) = &self.saved else { return true };
        let enough = saved.get() >= 1.0;
        if enough {
            saved.set(saved.get() - 1.0);
        }
        enough
    }

    /// Lets the delay follow the 95th percentile, for ever.
    pub(crate) async fn follow(self: Rc<Self>, world: Rc<World>) {
        let (mut ended, mut known) = (Vec::new(), 0);
        for round in 1_u32.. {
            world.until(f64::from(round) * EVERY).await;
            let new = world.ended_since(known);
            known += new.len();
            ended.extend(new);
            let recent = world.now() - WINDOW;
            ended.retain(|call| call.at + call.took >= recent);
            let mut took: Vec<f64> = ended.iter().map(|call| call.took).collect();
            took.sort_by(f64::total_cmp);
            let (naive, delay) = (Rc::clone(&self), percentile(&took, 0.95));
            spawn_local(async move {
                tokio::time::sleep(PROPAGATION).await;
                naive.delay.set(delay);
            });
        }
    }
}
