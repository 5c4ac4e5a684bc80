//! A short brown-out that some ways of hedging make last: simulated, with the tuner, the documents and the client as they are.

mod calls;
mod figures;
mod hedgerow;
mod naive;
mod servers;
mod table;
mod timeline;
mod way;
mod world;

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use tokio::task::{JoinSet, LocalSet};

use crate::figures::Figures;
use crate::hedgerow::Said;
use crate::timeline::BROWN_OUT;
use crate::way::Way;
use crate::world::World;

/// So long until clients have what an operator publishes: a mounted ConfigMap.
const PROPAGATION: Duration = Duration::from_secs(75);

/// Simulates a service that a brown-out can bring down for good, with five ways to hedge.
///
/// 20 servers with a queue each; a request is 200 ms of work on average, exponential. Attempts that lost are served to their end.
/// After an hour at a load of 0.1 it rises to 0.6 in ten minutes; ten minutes later servers take 1.6 times as long for 15 s. Whatever
/// is computed of latencies reaches clients 75 s later. The same calls come to each way, with the same work at the same servers.
///
/// Hedgerow's way is its own code: the tuner on a policy's defaults, its documents, and the hedgers of four clients. Time is virtual,
/// and two runs with one seed are the same. Takes some seconds.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// What calls and their work are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print what the operator told Hedgerow's clients, too
    #[arg(long)]
    told: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut rows = Vec::new();
    for way in Way::ALL {
        let (figures, said) = run(way, arguments.seed)?;
        rows.push((way, figures));
        for (at, what) in said.since(0.0).iter().filter(|_| arguments.told) {
            println!("{:+.0} s {what}", at - BROWN_OUT.start);
        }
    }
    print!("{}", table::markdown(&rows));
    Ok(())
}

/// Runs one way in virtual time, until the last call is answered.
fn run(way: Way, seed: u64) -> Result<(Figures, Rc<Said>)> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()?;
    let all = async {
        let (world, said) = (Rc::new(World::new()), Rc::new(Said::default()));
        let hedging = Rc::new(way.begin(&world, &said));
        let mut open = JoinSet::new();
        for (number, call) in calls::calls(seed).enumerate() {
            world.until(call.at).await;
            let (world, hedging) = (Rc::clone(&world), Rc::clone(&hedging));
            open.spawn_local(async move { hedging.call(&world, number, &call).await });
            while open.try_join_next().is_some() {}
        }
        while open.join_next().await.is_some() {}
        (Figures::new(&world.ended_since(0), world.attempts()), said)
    };
    Ok(LocalSet::new().block_on(&runtime, all))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::timeline::{USUAL_LOAD, WORK};

    /// Longer than any delay of the rules until hedging is back: the cooldown of a policy's defaults.
    const COOLDOWN: f64 = 120.0;

    /// Every way with the seed of the documentation.
    static ROWS: LazyLock<Vec<(Way, Figures)>> =
        LazyLock::new(|| Way::ALL.map(|way| (way, run(way, 1).unwrap().0)).into());

    fn figures(way: Way) -> &'static Figures {
        &ROWS.iter().find(|row| row.0 == way).unwrap().1
    }

    /// The medians before and during the brown-out, 15 to 35 s and 45 to 65 s after it.
    fn medians(figures: &Figures) -> Vec<f64> {
        figures.stretches.iter().map(|[p50, _]| *p50).collect()
    }

    #[test]
    fn without_hedging_the_service_is_the_queue_of_the_textbook_and_is_back_at_once() {
        // M/M/1: a call takes an exponential time with a mean of work / (1 - load): its median is ln 2 of that.
        let median = WORK / (1.0 - USUAL_LOAD) * 2.0_f64.ln();
        let unhedged = figures(Way::Unhedged);
        let before = medians(unhedged)[0];
        assert!((before / median - 1.0).abs() < 0.15, "{before} {median}");
        assert!(unhedged.back_after.unwrap() <= 30.0);
        assert!((unhedged.attempts_per_call - 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_delay_without_a_budget_makes_a_brown_out_last() {
        for way in [Way::Static, Way::Moving] {
            let figures = figures(way);
            let [before, _, soon, later] = medians(figures)[..] else {
                panic!()
            };
            assert!(soon > 10.0 * before && later > soon, "{way:?} {figures:?}");
            assert_eq!(figures.back_after, None, "{way:?}");
        }
    }

    #[test]
    fn a_budget_that_saves_without_limit_makes_it_last_as_long_as_its_savings() {
        let saving = figures(Way::Saving);
        let [before, _, soon, later] = medians(saving)[..] else {
            panic!()
        };
        assert!(soon > 10.0 * before && later > 10.0 * before, "{saving:?}");
        assert!(saving.back_after.unwrap() >= 60.0);
    }

    #[test]
    fn hedgerow_is_back_within_one_cooldown_and_hedges() {
        let (hedgerow, unhedged) = (figures(Way::Hedgerow), figures(Way::Unhedged));
        let [before, during, soon, later] = medians(hedgerow)[..] else {
            panic!()
        };
        assert!(hedgerow.back_after.unwrap() <= COOLDOWN, "{hedgerow:?}");
        assert!(soon < 1.5 * before && later < 1.5 * before, "{hedgerow:?}");
        assert!(during < 1.5 * medians(unhedged)[1], "{hedgerow:?}");
        // Of one that does not hedge that would be no merit.
        assert!(hedgerow.attempts_per_call > 1.02, "{hedgerow:?}");
    }

    #[test]
    fn two_runs_with_one_seed_are_the_same() {
        for way in [Way::Saving, Way::Hedgerow] {
            assert_eq!(run(way, 1).unwrap().0, *figures(way), "{way:?}");
        }
    }

    #[test]
    fn the_documentation_shows_what_is_printed() {
        let table = table::markdown(&ROWS);
        assert!(
            include_str!("../../../docs/metastable.md").contains(&table),
            "docs/metastable.md does not show what `make metastable` prints:\n{table}"
        );
    }
}
