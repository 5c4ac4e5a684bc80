//! Free ports.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};
use rand::RngExt;

/// Below the ephemeral range of Linux (32768 and up): the kernel gives none of these to an outgoing connection in the time
/// between our choice and the listener's start.
const RANGE: std::ops::Range<u16> = 20_000..32_000;

static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port of the loopback interface that nothing listens on and that this process has not given out before.
///
/// # Errors
/// When none is found.
pub fn free_port() -> Result<u16> {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    for _ in 0..200 {
        let port = rand::rng().random_range(RANGE);
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() && given.insert(port) {
            return Ok(port);
        }
    }
    bail!("found no free port in {RANGE:?}")
}
