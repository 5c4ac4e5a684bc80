//! What calls would miss alone, inferred while they are hedged.

use hedgerow_tuner::Basis;
use std::time::Duration;

use crate::common::{DEFAULT, OTEL};
use crate::service::{Attempts, Service};
use crate::traffic::{Traffic, client_bounds};

#[test]
fn is_within_a_tenth_of_the_truth() {
    let shapes = [
        Attempts::help_desk(),
        Attempts::lognormal(0.15, 0.7, 0.0),
        Attempts::lognormal(0.1, 0.4, 0.04),
    ];
    let mut inferred = 0;
    for (shape, attempts) in shapes.into_iter().enumerate() {
        for (layout, bounds) in [DEFAULT.to_vec(), OTEL.to_vec(), client_bounds()]
            .into_iter()
            .enumerate()
        {
            for percent in [2.5, 4.0, 10.0] {
                for seed in 0..3 {
                    let mut traffic = Traffic::new(Service::independent(attempts.clone()), &bounds, seed);
                    traffic.calls_per_second = 1000.0;
                    traffic.rules.deadline = Some(Duration::from_secs(1));
                    traffic.rules.budget.percent = percent;
                    traffic.run(3600.0);
                    let effect = traffic.decision().effect;
                    assert_ne!(effect.unhedged_basis, Some(Basis::Measured));
                    let Some(found) = effect.miss_share_unhedged else {
                        continue;
                    };
                    let off = found / attempts.survival(1.0);
                    assert!(
                        (0.9..1.1).contains(&off),
                        "shape {shape}, layout {layout}, {percent} %, seed {seed}: {off} times the truth"
                    );
                    inferred += 1;
                }
            }
        }
    }
    assert!(inferred > 30, "{inferred} of 81");
}
