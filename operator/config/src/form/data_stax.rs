//! The DataStax Java driver 4 for Apache Cassandra.
//!
//! Source: the driver's
//! [`reference.conf`](https://github.com/apache/cassandra-java-driver/blob/4.x/core/src/main/resources/reference.conf) and its
//! `ConstantSpeculativeExecutionPolicy`.

use std::fmt::Write;

use super::hedge::Hedge;
use super::place::Place;
use super::told::told_places;
use super::{Part, RenderError};

/// The name of the default profile within the driver, which the config may not use.
const RESERVED: &str = "default";

const NOTE: &str = "\
# Speculative executions of the DataStax Java driver 4, from Hedgerow.
# What to do: include this file in application.conf and restart the application; the driver reads it only at start.
# The driver hedges only statements that are marked as idempotent, and has no budget for hedges.
# Its timer ticks every 100 ms (advanced.netty.timer.tick-duration): a hedge leaves up to one tick after the delay.
";

/// An execution profile of the DataStax Java driver.
///
/// On is, in `advanced.speculative-execution-policy`, `ConstantSpeculativeExecutionPolicy` with `max-executions`, which counts
/// the first, and `delay` in whole milliseconds, the driver's unit. A delay under the timer's tick (100 ms unless the
/// application says otherwise) is written as it is: the driver hedges later then, never sooner. Off is
/// `NoSpeculativeExecutionPolicy`, said in each profile, since a profile takes from the default one what it does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataStaxProfile {
    /// The profile; `None` is the default one. Neither empty nor `default`, which the driver refuses.
    pub profile: Option<String>,
}

impl Place for DataStaxProfile {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

pub(super) fn render(parts: &[Part<DataStaxProfile>]) -> Result<String, RenderError> {
    let mut default = String::new();
    let mut profiles = String::new();
    for (place, hedge) in told_places(parts, check)? {
        match &place.profile {
            None => default = policy(hedge, "  "),
            Some(profile) => {
                let policy = policy(hedge, "      ");
                // Writing to a string cannot fail.
                let _ = writeln!(profiles, "    {} {{\n{policy}    }}", quoted(profile));
            }
        }
    }
    if !profiles.is_empty() {
        profiles = format!("  profiles {{\n{profiles}  }}\n");
    }
    Ok(format!("{NOTE}datastax-java-driver {{\n{default}{profiles}}}\n"))
}

fn check(part: &Part<DataStaxProfile>) -> Result<(), RenderError> {
    match part.place.profile.as_deref() {
        Some("") => {
            Err(part.cannot("the profile has no name: give one, or none at all for the default profile"))
        }
        Some(RESERVED) => Err(part.cannot(
            "the driver refuses a profile of the name \"default\": leave profile out for the default profile",
        )),
        _ => Ok(()),
    }
}

fn policy(hedge: Option<Hedge>, indent: &str) -> String {
    let settings = match hedge {
        None => format!("{indent}  class = NoSpeculativeExecutionPolicy\n"),
        Some(hedge) => format!(
            "{indent}  class = ConstantSpeculativeExecutionPolicy\n\
             {indent}  max-executions = {}\n\
             {indent}  delay = {} milliseconds\n",
            hedge.hedges + 1,
            hedge.delay_ms,
        ),
    };
    format!("{indent}advanced.speculative-execution-policy {{\n{settings}{indent}}}\n")
}

/// A quoted string of HOCON is one of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
