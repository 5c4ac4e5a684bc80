//! What servers saw of the calls of a client: the witness of hedging.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::time::sleep;

/// The header that names a call. All attempts of a call carry it.
pub(crate) const CALL: &str = "x-call";

/// The header that says how long the server takes to answer the first attempt of the call, the second and so on, in
/// milliseconds, separated by commas. An attempt beyond the last takes as long as the last. One with a `!` behind fails then.
pub(crate) const TAKES: &str = "x-takes";

/// The attempts that arrived at one or more servers.
#[derive(Clone, Default)]
pub(crate) struct Attempts(Arc<Mutex<BTreeMap<String, Vec<Attempt>>>>);

/// One attempt, as its server saw it.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    /// Which server.
    pub(crate) host: usize,
    /// When it arrived.
    pub(crate) arrived: Instant,
    /// What its header `grpc-previous-rpc-attempts` said.
    pub(crate) previous: Option<String>,
    /// When it was answered, be it by a failure.
    pub(crate) answered: Option<Instant>,
    /// When the client gave it up.
    pub(crate) cancelled: Option<Instant>,
}

impl Attempts {
    /// The attempts of `call` until now.
    pub(crate) fn of(&self, call: &str) -> Vec<Attempt> {
        self.0.lock().unwrap().get(call).cloned().unwrap_or_default()
    }

    /// Notes an attempt at its arrival, works on it for as long as it takes, and says whether that succeeds. If this is dropped
    /// before its end, the client has given the attempt up.
    pub(crate) async fn work(&self, host: usize, call: &str, takes: &str, previous: Option<String>) -> bool {
        let mut underway = self.arrived(host, call, previous);
        let takes: Vec<&str> = takes.split(',').collect();
        let takes = takes
            .get(underway.index)
            .or(takes.last())
            .copied()
            .unwrap_or_default();
        let succeeds = !takes.ends_with('!');
        sleep(Duration::from_millis(
            takes.trim_end_matches('!').parse().unwrap(),
        ))
        .await;
        underway.ended = true;
        self.note(call, underway.index, |attempt| {
            attempt.answered = Some(Instant::now());
        });
        succeeds
    }

    fn arrived(&self, host: usize, call: &str, previous: Option<String>) -> Underway {
        let mut calls = self.0.lock().unwrap();
        let attempts = calls.entry(call.to_owned()).or_default();
        attempts.push(Attempt {
            host,
            arrived: Instant::now(),
            previous,
            answered: None,
            cancelled: None,
        });
        Underway {
            attempts: self.clone(),
            call: call.to_owned(),
            index: attempts.len() - 1,
            ended: false,
        }
    }

    fn note(&self, call: &str, index: usize, note: impl FnOnce(&mut Attempt)) {
        let mut calls = self.0.lock().unwrap();
        note(&mut calls.get_mut(call).unwrap()[index]);
    }
}

struct Underway {
    attempts: Attempts,
    call: String,
    index: usize,
    ended: bool,
}

impl Drop for Underway {
    fn drop(&mut self) {
        if !self.ended {
            self.attempts.note(&self.call, self.index, |attempt| {
                attempt.cancelled = Some(Instant::now());
            });
        }
    }
}

/// A name for a call that no other call has.
pub(crate) fn new_call() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("call-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}
