//! The calls that come: the same of a seed whatever is done with them.

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::{Distribution as _, Exp1};

use crate::timeline::{END, SERVERS, WORK, rate};

/// A call, and what becomes of each attempt at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Call {
    /// When it comes.
    pub(crate) at: f64,
    /// The server and the seconds of work of the first attempt and of the second, at another server.
    pub(crate) attempts: [(usize, f64); 2],
}

/// All calls, in the order in which they come.
pub(crate) fn calls(seed: u64) -> impl Iterator<Item = Call> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut at = 0.0;
    let next = move || {
        let mut exponential = || -> f64 { Exp1.sample(&mut random) };
        at += exponential() / rate(at);
        let work = [WORK * exponential(), WORK * exponential()];
        let first = random.random_range(0..SERVERS);
        let second = (first + random.random_range(1..SERVERS)) % SERVERS;
        Some(Call {
            at,
            attempts: [(first, work[0]), (second, work[1])],
        })
    };
    std::iter::from_fn(next).take_while(|call| call.at < END)
}

#[cfg(test)]
mod tests {
    use super::calls;
    use crate::timeline::{BROWN_OUT, END, WORK};

    #[test]
    fn calls_come_at_the_load_that_they_make_and_are_those_of_the_seed() {
        let all: Vec<_> = calls(1).collect();
        let within =
            |from: f64, until: f64| all.iter().filter(|call| (from..until).contains(&call.at)).count();
        // 20 servers at 0.1 of 5 a second each are 10 a second for an hour, give or take 2 % (4 deviations).
        assert!((35_280..36_720).contains(&within(0.0, 3600.0)));
        // 35 a second while it rises, then 60 a second for 795 s, give or take 3 and 2 %.
        assert!((20_370..21_630).contains(&within(3600.0, 4200.0)));
        assert!((46_746..48_654).contains(&within(4200.0, END)));
        const { assert!(END > BROWN_OUT.end + 65.0) };
        let work: f64 = all.iter().map(|call| call.attempts[0].1).sum();
        assert!((work / all.len() as f64 / WORK - 1.0).abs() < 0.01);
        assert!(all.iter().all(|call| call.attempts[0].0 != call.attempts[1].0));
        assert!(all.iter().copied().eq(calls(1)));
        assert!(!all.iter().copied().eq(calls(2)));
    }
}
