//! What is generated: the CRD and the JSON Schema of the native document from types; completions and manual pages from the
//! command line.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap_complete::Shell;

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

/// Prints a script that completes `command` in a shell.
///
/// # Errors
/// When it cannot be written.
pub fn completions(mut command: clap::Command, shell: Shell) -> Outcome {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    stdout(&String::from_utf8_lossy(&script))
}

/// Prints the manual page of `command`, or writes it and those of its sub-commands into a folder.
///
/// # Errors
/// When it cannot be written.
pub fn man(command: clap::Command, into: Option<&Path>) -> Outcome {
    if let Some(folder) = into {
        let written = clap_mangen::generate_to(command, folder);
        written.map_err(|why| Failure::failed(format!("{}: {why}", folder.display())))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command)
        .render(&mut page)
        .map_err(Failure::failed)?;
    stdout(&String::from_utf8_lossy(&page))
}

/// Prints all of `text`. A reader that closed the pipe has read enough.
///
/// # Errors
/// When it cannot be written for another reason.
pub fn stdout(text: &str) -> Outcome {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Failure::failed(error)),
        _ => Ok(ExitCode::SUCCESS),
    }
}
