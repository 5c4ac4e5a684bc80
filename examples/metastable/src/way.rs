//! The ways of hedging that are compared.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;

use hedgerow_client::{Attempt, Feed, Hedger};
use tokio::task::spawn_local;

use crate::calls::Call;
use crate::hedgerow::{self, Said};
use crate::naive::Naive;
use crate::timeline::{USUAL_LOAD, WORK};
use crate::world::World;

/// What the documents are for.
pub(crate) const TARGET: &str = "calls";
/// Client processes; each has a bucket of its own.
const CLIENTS: usize = 4;
/// The static delay: the 95th percentile at the usual load. A call waits and is served for an exponential time with a mean of
/// `WORK / (1 - load)`, as a queue with random arrivals and exponential work has it (M/M/1): 500 ms x ln 20.
const STATIC: f64 = WORK / (1.0 - USUAL_LOAD) * 2.995_732_273_553_991;

/// A way of hedging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One attempt.
    Unhedged,
    /// A delay that is written in the program.
    Static,
    /// The 95th percentile, without a budget.
    Moving,
    /// The same with a budget of 10 % that loses nothing of what it saves.
    Saving,
    /// Hedgerow.
    Hedgerow,
}

/// A way, ready for calls.
pub(crate) enum Hedging {
    Naive(Rc<Naive>),
    Hedgerow(Vec<Hedger>),
}

impl Way {
    /// In the order of the table.
    pub(crate) const ALL: [Self; 5] = [
        Self::Unhedged,
        Self::Static,
        Self::Moving,
        Self::Saving,
        Self::Hedgerow,
    ];

    /// For people.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Unhedged => "unhedged",
            Self::Static => "static delay",
            Self::Moving => "moving p95",
            Self::Saving => "moving p95, 10 % saved without limit",
            Self::Hedgerow => "Hedgerow",
        }
    }

    /// Begins, in a world that is new.
    pub(crate) fn begin(self, world: &Rc<World>, said: &Rc<Said>) -> Hedging {
        let naive = Naive {
            delay: Cell::new((self == Self::Static).then_some(STATIC)),
            saved: (self == Self::Saving).then(Cell::default),
        };
        let naive = Rc::new(naive);
        match self {
            Self::Unhedged | Self::Static => {}
            Self::Moving | Self::Saving => {
                spawn_local(Rc::clone(&naive).follow(Rc::clone(world)));
            }
            Self::Hedgerow => {
                let clients = (0..CLIENTS).map(|_| Hedger::builder(TARGET).follow_feed());
                let (hedgers, feeds): (_, Vec<Feed>) = clients.unzip();
                spawn_local(hedgerow::operate(Rc::clone(world), feeds.into(), Rc::clone(said)));
                return Hedging::Hedgerow(hedgers);
            }
        }
        Hedging::Naive(naive)
    }
}

impl Hedging {
    /// Makes the call of this number.
    pub(crate) async fn call(&self, world: &World, number: usize, call: &Call) {
        match self {
            Self::Naive(naive) => naive.call(world, call).await,
            Self::Hedgerow(hedgers) => {
                let attempt = |attempt: Attempt| {
                    let answer = world.send(call, attempt.number);
                    async move {
                        answer.await;
                        Ok::<_, Infallible>(())
                    }
                };
                // Nothing fails and there is no deadline.
                let _ = hedgers[number % hedgers.len()].call(2, attempt).await;
            }
        }
        world.ended(call);
    }
}
