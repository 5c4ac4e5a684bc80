//! How the program ends.

use std::fmt;
use std::process::ExitCode;

/// Everything was decided, or the operator was asked to stop and did.
pub const DECIDED: u8 = 0;
/// `plan`: some reading is unknown. `run`: a part of the operator failed.
pub const INCOMPLETE: u8 = 1;
/// A policy, a file or the command line is not valid.
pub const INVALID: u8 = 2;
/// `plan`: a source could not be reached.
pub const UNREACHABLE: u8 = 3;

/// Why the program ends before its work is done, and with which code.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// What was given is not valid; the message names it and the remedy.
    pub fn invalid(message: impl fmt::Display) -> Self {
        Self {
            code: INVALID,
            message: message.to_string(),
        }
    }

    /// A part failed while running.
    pub fn failed(message: impl fmt::Display) -> Self {
        Self {
            code: INCOMPLETE,
            message: message.to_string(),
        }
    }

    /// Who should answer cannot be reached.
    pub fn unreachable(message: impl fmt::Display) -> Self {
        Self {
            code: UNREACHABLE,
            message: message.to_string(),
        }
    }

    /// Says it on stderr and gives the exit code.
    pub fn report(self) -> ExitCode {
        eprintln!("error: {}", self.message);
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a command ends with.
pub type Outcome = Result<ExitCode, Failure>;
