//! Every rule of the decision, by the numbers.

#[cfg(test)]
mod support;

#[cfg(test)]
mod buckets;
#[cfg(test)]
mod delays;
#[cfg(test)]
mod effects;
#[cfg(test)]
mod memories;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod readings;
#[cfg(test)]
mod switching;
