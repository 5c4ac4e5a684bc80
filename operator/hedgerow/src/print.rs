//! What is generated from types: the CRD and the JSON Schema of the native document.

use std::io::Write;
use std::process::ExitCode;

use crate::exit::{Failure, Outcome};

/// Prints the CustomResourceDefinition as YAML.
pub fn crd() -> Outcome {
    stdout(&hedgerow_api::crd_yaml().map_err(Failure::failed)?)
}

/// Prints the JSON Schema of the native document.
pub fn schema() -> Outcome {
    let json = serde_json::to_string_pretty(&hedgerow_config::json_schema()).map_err(Failure::failed)?;
    stdout(&format!("{json}\n"))
}

/// Prints all of `text`. A reader that closed the pipe has read enough.
pub(crate) fn stdout(text: &str) -> Outcome {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::failed(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}
