//! Policies. The input is the YAML of a `spec`.

use std::time::Duration;

use hedgerow::compile::{Compiled, compile};
use hedgerow::settings::DeclaredSource;
use hedgerow_api::{HedgePolicySpec, decode_spec, validate};
use hedgerow_tuner::{Readings, Timestamp, decide_settled};
use serde_json::Value;

pub(crate) fn check(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    let Ok(written) = serde_saphyr::from_str::<Value>(text) else {
        return;
    };
    // From a file, where unknown fields are refused ...
    match decode_spec(&written) {
        Ok(spec) => is_followed(&spec),
        Err(errors) => {
            assert!(!errors.is_empty(), "refused without a word");
            for error in errors {
                assert!(!error.to_string().is_empty());
            }
        }
    }
    // ... and from a cluster, where they are not, and a schema of before may have let anything in.
    if let Ok(spec) = serde_json::from_value::<HedgePolicySpec>(written) {
        match validate(&spec) {
            Ok(()) => is_followed(&spec),
            Err(_) => drop(compiled(&spec)),
        }
    }
}

/// What holds for every policy that is accepted.
fn is_followed(spec: &HedgePolicySpec) {
    let stored = serde_json::to_value(spec).expect("a spec is JSON");
    let read = serde_json::from_value::<HedgePolicySpec>(stored.clone()).expect("it reads back");
    assert_eq!(
        serde_json::to_value(&read).expect("a spec is JSON"),
        stored,
        "as it was stored"
    );

    let Some(compiled) = compiled(spec) else {
        panic!("accepted, and cannot be followed");
    };
    assert!(!compiled.saturation_interval.is_zero() && compiled.saturation_interval <= compiled.interval);
    assert_eq!(compiled.targets.len(), spec.targets.len());
    let hour = Duration::from_secs(3600);
    for target in &compiled.targets {
        let rules = &target.rules;
        assert!((0.5..=0.9999).contains(&rules.delay.quantile), "{rules:?}");
        assert!(
            !rules.delay.min.is_zero() && rules.delay.min <= rules.delay.max && rules.delay.max <= hour,
            "{rules:?}"
        );
        assert!(
            rules.budget.percent > 0.0 && rules.budget.percent <= 100.0,
            "{rules:?}"
        );
        assert!((2..=5).contains(&rules.budget.max_attempts), "{rules:?}");
        assert!(!rules.switch.cooldown.is_zero(), "{rules:?}");
        let decision = decide_settled(rules, &Readings::default(), Timestamp::default());
        assert_eq!(decision.orders.hedging, None, "on before anything was read");
    }
}

fn compiled(spec: &HedgePolicySpec) -> Option<Compiled> {
    let source = DeclaredSource::plain("default", "http://prometheus:9090");
    compile(spec, "n", &source, Duration::from_secs(90)).ok()
}
