//! Every rule of the decision, by the numbers.
#![allow(
    clippy::float_cmp,
    reason = "decided numbers are whole tenths, and worked out by hand"
)]

#[cfg(test)]
mod random;
#[cfg(test)]
mod support;

#[cfg(test)]
mod buckets;
#[cfg(test)]
mod counted;
#[cfg(test)]
mod counts_told;
#[cfg(test)]
mod delays;
#[cfg(test)]
mod diagnoses;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod memories;
#[cfg(test)]
mod native;
#[cfg(test)]
mod no_benefit;
#[cfg(test)]
mod observations;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod readings;
#[cfg(test)]
mod slow_modes;
#[cfg(test)]
mod spending;
#[cfg(test)]
mod switching;
