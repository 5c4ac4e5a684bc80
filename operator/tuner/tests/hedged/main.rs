//! What hedged traffic shows of itself, in virtual time: counts are drawn from their distributions, not call by call, so
//! that a month takes seconds.

#[cfg(test)]
#[path = "../common/mod.rs"]
mod common;
#[cfg(test)]
mod service;
#[cfg(test)]
mod traffic;

#[cfg(test)]
mod false_alarms;
#[cfg(test)]
mod inference;
#[cfg(test)]
mod power;
#[cfg(test)]
mod stalls;
