//! What `java.util.Properties` makes of a document.

use hedgerow_config::{Form, PropertiesPrefix};

use crate::{OFF, Read, assert_refused, expected, on, part, rendered};

fn read(document: &str) -> anyhow::Result<Read> {
    crate::read("properties", "hedging.properties", document, &[])
}

fn document(orders: &hedgerow_tuner::Orders, prefix: &str) -> String {
    let prefix = Some(prefix.to_owned());
    rendered(&Form::Properties(vec![part(orders, PropertiesPrefix { prefix })]))
}

#[test]
fn java_reads_the_orders() {
    for (delay_ms, said) in [(511.2, "512"), (600.0, "600")] {
        assert_eq!(
            read(&document(&on(delay_ms), "hedging")).unwrap(),
            expected([
                ("hedging.enabled", "true"),
                ("hedging.reason", "Tuned"),
                ("hedging.delayMs", said),
                ("hedging.deadlineMs", "1000"),
                ("hedging.minRemainingMs", "20"),
                ("hedging.maxAttempts", "2"),
                ("hedging.budget.percent", "10"),
                ("hedging.budget.burst", "10"),
                ("hedging.budget.minPerSecond", "0"),
                ("hedging.budget.maxConcurrent", "100"),
            ])
        );
    }
}

/// The prefix has everything that the format gives a meaning of its own; the program prints a line end as a blank.
#[test]
fn java_reads_off_under_a_prefix_of_any_characters() {
    let prefix = "# a:b=c!\\d\té €😀\n";
    let read = read(&document(&OFF, prefix)).unwrap();
    let printed = prefix.replace('\n', " ");
    let expected = [
        ("enabled", "false"),
        ("reason", "Saturated"),
        ("deadlineMs", "1000"),
        ("maxAttempts", "2"),
    ];
    let expected = expected.map(|(key, value)| (format!("{printed}.{key}"), value.to_owned()));
    assert_eq!(read, expected.into());
}

#[test]
fn java_refuses_what_the_renderer_never_writes() {
    assert_refused(read("hedging\\u00zz=1\n"), "Malformed \\uxxxx encoding");
}
