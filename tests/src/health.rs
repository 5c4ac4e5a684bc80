//! What the tools of GitOps make of a policy, each by its own code (see `tests/programs/README.md`).

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use tokio::process::Command;

use crate::{output_of, program, repository};

const CASES: &str = "tests/cases/health.jsonl";
const HEALTH_LUA: &str = "examples/gitops/argo-cd/health.lua";
const STRICT: &str = "examples/gitops/flux/strict.yaml";

/// The health of a policy, in the words of each tool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Health {
    /// By kstatus: what Flux, Helm and `kubectl wait`-like tools go by.
    pub kstatus: String,
    /// By the script of ours that Argo CD runs.
    pub argo: String,
    /// By the stricter of our examples for Flux.
    pub strict: String,
}

/// A line of `tests/cases/health.jsonl`.
#[derive(Deserialize)]
struct Case {
    phase: String,
    #[serde(flatten)]
    health: Health,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
}

impl Health {
    /// The health that `policy`, an object as the API server has it, is in.
    ///
    /// # Errors
    /// When a program is not built, or does not understand the object.
    pub async fn of(policy: &Value) -> Result<Self> {
        let (lua, strict) = (repository().join(HEALTH_LUA), repository().join(STRICT));
        Ok(Self {
            kstatus: asked("flux", &["health".as_ref()], policy).await?,
            argo: asked("argo-health", &[lua.as_ref()], policy).await?,
            strict: asked("flux", &["health".as_ref(), strict.as_ref()], policy).await?,
        })
    }

    /// The health that each phase of a policy should be in.
    ///
    /// # Errors
    /// When the cases cannot be read.
    pub fn expected() -> Result<BTreeMap<String, Self>> {
        let text = fs::read_to_string(repository().join(CASES)).context(CASES)?;
        let case = |line| {
            let case: Case = serde_json::from_str(line).with_context(|| format!("{CASES}: {line}"))?;
            Ok((case.phase, case.health))
        };
        text.lines().map(case).collect()
    }
}

async fn asked(name: &'static str, arguments: &[&OsStr], policy: &Value) -> Result<String> {
    let mut command = Command::new(program(name)?);
    command.args(arguments);
    let answer = output_of(command, &policy.to_string()).await?;
    let answer: Answer = serde_json::from_str(&answer.printed().context(name)?)?;
    Ok(answer.status)
}
