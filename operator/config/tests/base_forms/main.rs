//! The documents that are written over a user's own.

#![allow(clippy::unwrap_used, clippy::panic)] // Helpers of tests; clippy.toml allows them only inside the tests themselves.

#[path = "../committed/mod.rs"]
mod committed;
mod dotnet;
mod envoy;
mod grpc;
mod kitex;
mod laws;

use std::time::Duration;

use hedgerow_config::{Form, Limits, Part, RenderError};
use hedgerow_tuner::{Hedging, Orders, Reason};
use serde_json::Value;

/// Orders to hedge after `delay_ms`, for `percent` of the calls.
fn on(delay_ms: f64, percent: f64) -> Orders {
    let hedging = Hedging {
        delay_ms,
        min_remaining_ms: 150.0,
        percent,
        min_per_second: 0.0,
    };
    let reason = if percent < 10.0 {
        Reason::Ramping
    } else {
        Reason::Tuned
    };
    Orders {
        hedging: Some(hedging),
        reason,
    }
}

fn off() -> Orders {
    let reason = Reason::Saturated;
    Orders {
        hedging: None,
        reason,
    }
}

/// A target with a deadline of 1 s and 2 attempts.
fn part<P>(target: &str, orders: Orders, place: P) -> Part<P> {
    let limits = Limits {
        deadline: Some(Duration::from_secs(1)),
        max_attempts: 2,
        max_concurrent: 100,
    };
    Part {
        target: target.to_owned(),
        orders,
        limits,
        place,
    }
}

fn with_attempts<P>(max_attempts: u8, part: Part<P>) -> Part<P> {
    let limits = Limits {
        max_attempts,
        ..part.limits
    };
    Part { limits, ..part }
}

fn with_deadline<P>(deadline: Option<Duration>, part: Part<P>) -> Part<P> {
    let limits = Limits {
        deadline,
        ..part.limits
    };
    Part { limits, ..part }
}

/// The document over a base; compared with the golden file of that name.
fn golden(name: &str, form: &Form, base: Option<&str>) -> String {
    let document = form.render(base).unwrap();
    let mend = "HEDGEROW_BLESS=1 cargo test -p hedgerow-config";
    committed::assert_committed(&format!("tests/golden/{name}"), &document, mend);
    document
}

/// The place and the problem of a base that is refused.
fn refused_base(form: &Form, base: &str) -> (String, String) {
    match form.render(Some(base)) {
        Err(RenderError::Base { at, problem }) => (at, problem),
        other => panic!("{other:?}"),
    }
}

/// The target and the problem of orders that are refused.
fn refused_orders(form: &Form, base: Option<&str>) -> (String, String) {
    match form.render(base) {
        Err(RenderError::Orders { target, problem }) => (target, problem),
        other => panic!("{other:?}"),
    }
}

fn json(document: &str) -> Value {
    serde_json::from_str(document).unwrap()
}

fn yaml(document: &str) -> Value {
    serde_saphyr::from_str(document).unwrap()
}

fn assert_fits(schema: &str, document: &Value) {
    let validator = jsonschema::validator_for(&json(schema)).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{errors:?} in {document:#}");
}
