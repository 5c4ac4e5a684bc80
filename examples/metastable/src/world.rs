//! What ways of hedging and their operators share: the time, the servers, and what became of calls.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep_until};

use crate::calls::Call;
use crate::servers::Servers;

/// One run.
#[derive(Debug)]
pub(crate) struct World {
    epoch: Instant,
    servers: RefCell<Servers>,
    attempts: Cell<u64>,
    /// In the order in which they ended.
    ended: RefCell<Vec<Ended>>,
}

/// A call that was answered, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ended {
    /// When it came.
    pub(crate) at: f64,
    /// How long it took.
    pub(crate) took: f64,
}

impl World {
    /// A world that begins now.
    pub(crate) fn new() -> Self {
        Self {
            epoch: Instant::now(),
            servers: RefCell::default(),
            attempts: Cell::default(),
            ended: RefCell::default(),
        }
    }

    /// Seconds since it began.
    pub(crate) fn now(&self) -> f64 {
        self.epoch.elapsed().as_secs_f64()
    }

    /// Ends so many seconds after it began.
    pub(crate) fn until(&self, at: f64) -> Sleep {
        sleep_until(self.epoch + Duration::from_secs_f64(at))
    }

    /// Sends an attempt at a call; ends with its answer. The server goes on when nobody waits for that any more.
    pub(crate) fn send(&self, call: &Call, attempt: usize) -> Sleep {
        self.attempts.set(self.attempts.get() + 1);
        let (server, work) = call.attempts[attempt];
        let answered = self.servers.borrow_mut().send(self.now(), server, work);
        self.until(answered)
    }

    /// Notes that a call has its answer.
    pub(crate) fn ended(&self, call: &Call) {
        self.ended.borrow_mut().push(Ended {
            at: call.at,
            took: self.now() - call.at,
        });
    }

    /// The calls that ended since there were `known` of them.
    pub(crate) fn ended_since(&self, known: usize) -> Vec<Ended> {
        self.ended.borrow().get(known..).unwrap_or_default().to_vec()
    }

    /// How many requests wait at each server.
    pub(crate) fn queues(&self) -> Vec<f64> {
        self.servers.borrow_mut().queues(self.now())
    }

    /// Attempts sent so far.
    pub(crate) fn attempts(&self) -> u64 {
        self.attempts.get()
    }
}
