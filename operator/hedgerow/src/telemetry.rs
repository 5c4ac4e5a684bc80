//! Structured logs.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use crate::cli::LogFormat;

/// The variable that says what is logged.
const VARIABLE: &str = "HEDGEROW_LOG";
/// Unset: what people need, without the libraries' chatter.
const DEFAULT: &str = "warn,hedgerow=info,hedgerow_signals=info";

/// Starts logging to stderr, so that stdout stays for output.
pub fn start(format: LogFormat) -> Result<(), String> {
    let directives = std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT.to_owned());
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        format!("{VARIABLE}={directives:?} is not a log filter ({error}); an example: info,hedgerow=debug")
    })?;
    let builder = fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let started = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .try_init(),
    };
    started.map_err(|error| error.to_string())
}
