//! What happens when: an hour of light use, a slow rise to the usual load, and in that a brown-out. All times are seconds since the start.

use std::ops::Range;

/// Servers, each of which serves one request at a time, in the order in which they came.
pub(crate) const SERVERS: usize = 20;
/// Seconds of work in a request, on average; exponential.
pub(crate) const WORK: f64 = 0.2;
/// In the brown-out servers take this many times as long.
pub(crate) const SLOWER: f64 = 1.6;

/// The share of the servers' time that the calls of light use take, and those of usual load.
const LIGHT_LOAD: f64 = 0.1;
pub(crate) const USUAL_LOAD: f64 = 0.6;

/// While use is light, and while it rises: slowly, so that no delay is wrong for that alone.
const LIGHT: f64 = 3600.0;
const RISES: Range<f64> = LIGHT..LIGHT + 600.0;
/// While servers are slow.
pub(crate) const BROWN_OUT: Range<f64> = RISES.end + 600.0..RISES.end + 615.0;
/// The last call comes before this.
pub(crate) const END: f64 = BROWN_OUT.end + 180.0;

/// The stretches that are told of.
pub(crate) const STRETCHES: [(&str, Range<f64>); 4] = [
    ("before", BROWN_OUT.start - 60.0..BROWN_OUT.start),
    ("during", BROWN_OUT),
    ("15-35 s after", BROWN_OUT.end + 15.0..BROWN_OUT.end + 35.0),
    ("45-65 s after", BROWN_OUT.end + 45.0..BROWN_OUT.end + 65.0),
];

/// Calls per second at a time.
pub(crate) fn rate(at: f64) -> f64 {
    let risen = ((at - RISES.start) / (RISES.end - RISES.start)).clamp(0.0, 1.0);
    (LIGHT_LOAD + (USUAL_LOAD - LIGHT_LOAD) * risen) * SERVERS as f64 / WORK
}
