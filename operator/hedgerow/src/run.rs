//! `hedgerow run`: the operator.

use crate::cli::RunArgs;
use crate::exit::{Failure, Outcome};
use crate::settings::Settings;
use crate::telemetry;

/// Runs until SIGTERM.
///
/// # Errors
/// A configuration that is not valid, and a part that failed.
pub async fn run(args: &RunArgs) -> Outcome {
    let _settings = Settings::load(&args.config).map_err(Failure::invalid)?;
    telemetry::start(args.log_format).map_err(Failure::invalid)?;
    Err(Failure::failed("the cluster's part is not there yet"))
}
