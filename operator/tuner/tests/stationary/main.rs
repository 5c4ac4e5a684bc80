//! Traffic in virtual time: simulated calls, hedged by the documents in force, observed through real bucket layouts.

#[cfg(test)]
#[path = "../common/mod.rs"]
mod common;
#[cfg(test)]
mod service;
#[cfg(test)]
mod simulation;

#[cfg(test)]
mod guided;
#[cfg(test)]
mod observations;
#[cfg(test)]
mod saturation;
#[cfg(test)]
mod scenarios;
#[cfg(test)]
mod slow_modes;
