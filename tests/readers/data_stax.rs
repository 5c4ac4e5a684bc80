//! The policies that the DataStax driver makes of a document.

use hedgerow_config::{DataStaxProfile, Form};

use crate::{OFF, Read, assert_refused, expected, on, part, rendered};

fn profile(name: Option<&str>) -> DataStaxProfile {
    DataStaxProfile {
        profile: name.map(str::to_owned),
    }
}

fn read(document: &str) -> anyhow::Result<Read> {
    crate::read("data-stax", "application.conf", document, &[])
}

#[test]
fn the_driver_hedges_after_the_delay_as_often_as_allowed() {
    let document = |delay_ms| rendered(&Form::DataStax(vec![part(&on(delay_ms), profile(None))]));
    let policy = |said| expected([("default", said)]);
    assert_eq!(
        read(&document(511.2)).unwrap(),
        policy("ConstantSpeculativeExecutionPolicy 512")
    );
    assert_eq!(
        read(&document(600.0)).unwrap(),
        policy("ConstantSpeculativeExecutionPolicy 600")
    );

    let mut three = part(&on(40.0), profile(None));
    three.limits.max_attempts = 3;
    assert_eq!(
        read(&rendered(&Form::DataStax(vec![three]))).unwrap(),
        policy("ConstantSpeculativeExecutionPolicy 40 40")
    );
}

#[test]
fn off_is_off_in_a_profile_of_which_the_default_hedges_and_the_other_way_round() {
    let name = "by \"month\".all";
    for (default, named) in [(on(512.0), OFF), (OFF, on(512.0)), (OFF, OFF)] {
        let form = Form::DataStax(vec![
            part(&default, profile(None)),
            part(&named, profile(Some(name))),
        ]);
        let policy = |orders: &hedgerow_tuner::Orders| match orders.hedging {
            Some(_) => "ConstantSpeculativeExecutionPolicy 512",
            None => "NoSpeculativeExecutionPolicy",
        };
        assert_eq!(
            read(&rendered(&form)).unwrap(),
            expected([("default", policy(&default)), (name, policy(&named))])
        );
    }
}

#[test]
fn the_driver_refuses_what_the_renderer_never_writes() {
    let good = rendered(&Form::DataStax(vec![part(&on(512.0), profile(None))]));
    for (from, to, reason) in [
        (
            "Constant",
            "Steady",
            "Can't find class SteadySpeculativeExecutionPolicy",
        ),
        (
            "max-executions = 2",
            "max-executions = 0",
            "Max must be at least 1",
        ),
        ("512 milliseconds", "soon", "No number in duration value 'soon'"),
    ] {
        assert!(good.contains(from));
        assert_refused(read(&good.replace(from, to)), reason);
    }
    let reserved = "datastax-java-driver.profiles.default.basic.request.timeout = 1 second";
    assert_refused(read(reserved), "Can't have default as a profile name");
}
