//! Documents handed to the code of the systems that they are for (`tests/programs`): what it makes of them, and what it
//! refuses.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "all of it is tests, helpers included"
)]

mod cassandra;
mod data_stax;
mod hdfs;
mod health;
mod loki;
mod properties;

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hedgerow_config::{Form, Limits, Part};
use hedgerow_tests::program;
use hedgerow_tuner::{Hedging, Orders, Reason};

/// What a system read: names of its own, and values.
type Read = BTreeMap<String, String>;

const OFF: Orders = Orders {
    hedging: None,
    reason: Reason::Saturated,
};

fn on(delay_ms: f64) -> Orders {
    let hedging = Hedging {
        delay_ms,
        min_remaining_ms: 20.0,
        percent: 10.0,
        min_per_second: 0.0,
    };
    Orders {
        hedging: Some(hedging),
        reason: Reason::Tuned,
    }
}

fn part<P>(orders: &Orders, place: P) -> Part<P> {
    Part {
        target: "shard-read".to_owned(),
        orders: orders.clone(),
        limits: Limits {
            deadline: Some(Duration::from_secs(1)),
            max_attempts: 2,
            max_concurrent: 100,
        },
        place,
    }
}

fn rendered(form: &Form) -> String {
    form.render(None).unwrap()
}

/// Has a program read a document from a file of this name.
fn read(name: &'static str, file: &str, document: &str, arguments: &[&str]) -> Result<Read> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join(file);
    std::fs::write(&path, document)?;
    let output = Command::new(program(name)?).arg(&path).args(arguments).output()?;
    if !output.status.success() {
        bail!("refused: {}", String::from_utf8_lossy(&output.stderr));
    }
    let said = String::from_utf8(output.stdout)?;
    let pair = |line: &str| {
        let (name, value) = line.rsplit_once('=').with_context(|| format!("{line:?}"))?;
        Ok((name.to_owned(), value.to_owned()))
    };
    said.lines().map(pair).collect()
}

fn expected<const N: usize>(pairs: [(&str, &str); N]) -> Read {
    pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// That a document is refused, for a reason that names what is wrong with it.
fn assert_refused(read: Result<Read>, reason: &str) {
    match read {
        Ok(read) => panic!("not refused: {read:?}"),
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("refused") && error.contains(reason), "{error}");
        }
    }
}
