//! What Loki makes of a document, and how many requests its client then makes of a server that answers late.

use hedgerow_config::{Form, LokiClient};

use crate::{OFF, Read, assert_refused, expected, on, part, rendered};

fn read(document: &str) -> anyhow::Result<Read> {
    crate::read("loki", "loki.yaml", document, &[])
}

fn document(orders: &hedgerow_tuner::Orders) -> String {
    rendered(&Form::Loki(vec![part(
        orders,
        LokiClient {
            max_per_second: Some(7),
        },
    )]))
}

fn settings(at: &str, up_to: &str, max_per_second: &str, requests: &str) -> Read {
    expected([
        ("at", at),
        ("up_to", up_to),
        ("max_per_second", max_per_second),
        ("requests", requests),
    ])
}

#[test]
fn loki_hedges_a_late_answer_after_the_delay() {
    assert_eq!(
        read(&document(&on(120.7))).unwrap(),
        settings("121ms", "2", "7", "2")
    );
    assert_eq!(
        read(&document(&on(60.0))).unwrap(),
        settings("60ms", "2", "7", "2")
    );
}

#[test]
fn off_is_one_request() {
    assert_eq!(read(&document(&OFF)).unwrap(), settings("0s", "1", "5", "1"));
}

/// So that a document of which only half is merged is off too.
#[test]
fn each_half_of_off_is_off_by_itself_and_so_is_none_of_it() {
    let of = |hedging: &str| read(&format!("storage_config: {{ hedging: {{ {hedging} }} }}")).unwrap();
    assert_eq!(of("at: 0s, up_to: 2"), settings("0s", "2", "5", "1"));
    assert_eq!(of("at: 60ms, up_to: 1"), settings("60ms", "1", "5", "1"));
    assert_eq!(of(""), settings("0s", "2", "5", "1"));
}

#[test]
fn loki_refuses_what_the_renderer_never_writes() {
    let good = document(&on(60.0));
    for (from, to, reason) in [
        ("at:", "after:", "field after not found"),
        ("60ms", "soon", "cannot unmarshal"),
        ("up_to: 2", "up_to: -1", "upto cannot be negative"),
    ] {
        assert!(good.contains(from));
        assert_refused(read(&good.replace(from, to)), reason);
    }
}
