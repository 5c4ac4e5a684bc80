//! Any orders over any base.

use std::time::Duration;

use hedgerow_config::{DotnetClient, EnvoyCluster, Form, GrpcMethod, KitexMethod, Limits, Part};
use hedgerow_tuner::{Hedging, Orders, Reason};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The kinds of documents; the last is that of Kitex.
pub(crate) const KINDS: std::ops::Range<usize> = 0..4;
pub(crate) const GRPC: usize = 0;
pub(crate) const ENVOY: usize = 1;
pub(crate) const DOTNET: usize = 2;

/// Orders and limits, most of them such as a policy may say.
pub(crate) fn any_orders() -> impl Strategy<Value = (Orders, Limits)> {
    let delay = prop_oneof![8 => 0.001..1000.0_f64, 1 => 0.0..4e6_f64, 1 => any::<f64>()];
    let percent = prop_oneof![9 => 0.01..=100.0_f64, 1 => any::<f64>()];
    let hedging = (delay, percent).prop_map(|(delay_ms, percent)| Hedging {
        delay_ms,
        min_remaining_ms: 0.0,
        percent,
        min_per_second: 0.0,
    });
    let reason = prop_oneof![
        Just(Reason::Tuned),
        Just(Reason::Ramping),
        proptest::sample::select(Reason::ALL)
    ];
    let deadline = proptest::option::of((1_u64..=3_600_000).prop_map(Duration::from_millis));
    let attempts = prop_oneof![3 => 2_u8..=3, 1 => any::<u8>()];
    (proptest::option::of(hedging), reason, deadline, attempts).prop_map(
        |(hedging, reason, deadline, max_attempts)| {
            let limits = Limits {
                deadline,
                max_attempts,
                max_concurrent: 100,
            };
            (Orders { hedging, reason }, limits)
        },
    )
}

/// Only Kitex can be told a part of the budget; the others are off while it ramps up.
pub(crate) fn may_hedge(kind: usize, orders: &Orders) -> bool {
    let ramps = kind == KINDS.end - 1 && orders.reason == Reason::Ramping;
    orders.hedging.is_some() && (orders.reason == Reason::Tuned || ramps)
}

/// A document of that kind for the targets a and b.
pub(crate) fn form(kind: usize, parts: &[(Orders, Limits)]) -> Form {
    fn of<P>(parts: &[(Orders, Limits)], place: impl Fn(&str) -> P) -> Vec<Part<P>> {
        let part = |((orders, limits), name): (&(Orders, Limits), &str)| Part {
            target: name.to_owned(),
            orders: orders.clone(),
            limits: *limits,
            place: place(name),
        };
        parts.iter().zip(["a", "b"]).map(part).collect()
    }
    match kind {
        GRPC => Form::GrpcServiceConfig(of(parts, |name| GrpcMethod {
            service: "s".to_owned(),
            method: Some(name.to_owned()),
        })),
        ENVOY => Form::EnvoyRoute(of(parts, |name| EnvoyCluster {
            cluster: name.to_owned(),
        })),
        DOTNET => Form::DotnetHedging(of(parts, |name| DotnetClient {
            client: name.to_owned(),
        })),
        _ => Form::Kitex(of(parts, |name| KitexMethod {
            client: "c".to_owned(),
            server: "s".to_owned(),
            method: name.to_owned(),
        })),
    }
}

/// A base for the two targets, with any values beside what matters.
pub(crate) fn any_base(kind: usize) -> impl Strategy<Value = Value> {
    (any_json(), any_json(), any_json()).prop_map(move |(x, y, z)| match kind {
        GRPC => json!({ "methodConfig": [
            { "x": x, "name": [{}] },
            { "name": [{ "service": "s", "method": "a" }, { "service": "s", "method": "c" }], "y": y },
        ], "z": z }),
        ENVOY => json!({ "x": x, "resources": [{ "virtual_hosts": [{ "y": y, "routes": [
            { "route": { "cluster": "a", "timeout": "0s", "z": z } },
            { "redirect": {} },
            { "route": { "cluster": "b", "timeout": "0s", "retry_policy": { "per_try_timeout": "2s", "y": y } } },
        ] }] }] }),
        DOTNET => json!({ "x": x, "HttpClients": {
            "a": { "y": y, "Hedging": { "Hedging": { "Delay": "-00:00:01" } } },
            "b": { "Hedging": { "Hedging": { "Delay": "-00:00:01", "MaxHedgedAttempts": 7, "z": z } } },
        } }),
        _ => json!({ "x": x, "c/s": { "y": y, "retry": {
            "a": { "enable": false, "type": 0, "backup_policy": { "retry_delay_ms": 7, "stop_policy": {
                "max_retry_times": 1, "z": z, "cb_policy": { "error_rate": 0.25 } } } },
        } } }),
    })
}

/// Any JSON without fractions, which Envoy's bases have to quote.
pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "\\PC{0,12}",
        "(yes|no|on|off|null|~|true|1e3|0x1F|010|1_000|1:30|2001-01-01|<<|- a|a: b|#c|\\.inf|)"
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text.prop_map(Value::from),
        "[\\x00-\\x7e\u{85}\u{2028}\u{feff}\n]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-zA-Z@.: /-]{0,8}", inner, 0..4)
                .prop_map(|map| Value::from(serde_json::Map::from_iter(map))),
        ]
    })
}

pub(crate) fn any_case() -> impl Strategy<Value = (usize, Vec<(Orders, Limits)>, Value)> {
    KINDS.prop_flat_map(|kind| {
        (
            Just(kind),
            proptest::collection::vec(any_orders(), 0..=2),
            any_base(kind),
        )
    })
}
