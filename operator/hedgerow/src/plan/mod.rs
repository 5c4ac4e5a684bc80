//! `hedgerow plan`: what would be decided for policies in files, and why. It touches no cluster.

mod bases;
mod files;
mod input;
mod reading;
mod report;
mod served;
mod table;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cli::{Output, PlanArgs};
use crate::compile::{Compiled, compile};
use crate::exit::{DECIDED, Failure, INCOMPLETE, Outcome, UNREACHABLE};
use crate::forms::one_place_twice;
use crate::settings::{DeclaredSource, Settings, Sources};
use crate::{print, words};

use input::{Given, WrittenPolicy};
pub use report::{Document, Report, Target, Word};
pub(crate) use served::serve;
pub use served::{MOST_BYTES, Planner, YAML};

/// How long a document takes to reach its clients, where no configuration says so.
const PROPAGATION: Duration = Duration::from_secs(90);

/// A policy that can be read and decided.
struct Planned {
    policy: WrittenPolicy,
    compiled: Compiled,
}

/// What was planned.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// What is told of it.
    #[serde(flatten)]
    pub report: Report,
    /// The sources that answer nothing, by name, with why.
    pub failing: BTreeMap<String, String>,
}

impl Plan {
    /// Says on stderr which sources cannot be read.
    pub fn tell_failing(&self) {
        for (source, why) in &self.failing {
            eprintln!("error: source {source} cannot be read: {why}");
        }
    }
}

/// Plans the policies that `args` name, and prints what follows.
///
/// # Errors
/// What is not valid: a file, a policy, a source.
pub async fn run(args: &PlanArgs) -> Outcome {
    let plan = plan(args).await?;
    let report = &plan.report;
    match output(args) {
        Output::Json => print::stdout(&report.to_json())?,
        Output::Table => print::stdout(&table::render(report))?,
    };
    plan.tell_failing();
    Ok(ExitCode::from(
        match (plan.failing.is_empty(), report.has_unknown()) {
            (false, _) => UNREACHABLE,
            (true, true) => INCOMPLETE,
            (true, false) => DECIDED,
        },
    ))
}

/// Plans the policies that `args` name.
///
/// # Errors
/// What is not valid: a file, a policy, a source.
pub async fn plan(args: &PlanArgs) -> Result<Plan, Failure> {
    let (sources, propagation) = sources(args)?;
    let texts = input::texts(&args.files, args.recursive).map_err(Failure::invalid)?;
    let given = input::parse(&texts, &args.namespace).map_err(Failure::invalid)?;
    decide(given, &sources, propagation).await
}

/// The files as one text, for who plans elsewhere; what is in them is looked at here already, where they have names.
///
/// # Errors
/// What is not valid: a file, a policy.
pub fn to_send(files: &[PathBuf], recursive: bool, namespace: &str) -> Result<String, Failure> {
    let texts = input::texts(files, recursive).map_err(Failure::invalid)?;
    input::parse(&texts, namespace).map_err(Failure::invalid)?;
    let contents: Vec<_> = texts.iter().map(|text| text.content.as_str()).collect();
    Ok(contents.join("\n---\n"))
}

async fn decide(given: Given, sources: &Sources, propagation: Duration) -> Result<Plan, Failure> {
    let planned = compile_all(given.policies, sources, propagation)?;
    let readings = reading::read(&planned, sources).await.map_err(Failure::invalid)?;
    let failing = readings.failing.iter();
    Ok(Plan {
        report: Report::new(&planned, &given.bases, &readings, words::now()),
        failing: failing
            .map(|(source, why)| (source.clone(), why.to_string()))
            .collect(),
    })
}

/// Tables for people, JSON into pipes.
fn output(args: &PlanArgs) -> Output {
    args.output.unwrap_or_else(|| {
        if std::io::stdout().is_terminal() {
            Output::Table
        } else {
            Output::Json
        }
    })
}

/// Where to read from. Of `--prometheus` and `--config` the command line takes exactly one.
fn sources(args: &PlanArgs) -> Result<(Sources, Duration), Failure> {
    match (&args.config, &args.prometheus) {
        (Some(config), _) => {
            let settings = Settings::load(config).map_err(Failure::invalid)?;
            Ok((settings.sources, settings.propagation))
        }
        (None, url) => {
            let url = url.as_deref().unwrap_or_default();
            if !url.contains("://") {
                let remedy =
                    format!("--prometheus {url}: begin it with http:// or https://, as in http://{url}");
                return Err(Failure::invalid(remedy));
            }
            Ok((
                Sources::every_name(DeclaredSource::plain("prometheus", url)),
                PROPAGATION,
            ))
        }
    }
}

/// Compiles every policy, or says what keeps each from it.
fn compile_all(
    policies: Vec<WrittenPolicy>,
    sources: &Sources,
    propagation: Duration,
) -> Result<Vec<Planned>, Failure> {
    let mut planned = Vec::with_capacity(policies.len());
    let mut faults = Vec::new();
    let mut crowds: BTreeMap<(String, String), usize> = BTreeMap::new();
    for policy in policies {
        if let Some(why) = one_place_twice(&policy.spec) {
            faults.push(format!("{}: {why}", policy.origin));
            continue;
        }
        let outcome = sources
            .available(&policy.spec.source, &policy.namespace)
            .map_err(|why| why.to_string())
            .and_then(|source| {
                let crowd = (policy.namespace.clone(), source.settings.name.clone());
                let crowd = crowds.entry(crowd).or_default();
                *crowd += policy.spec.targets.len();
                not_too_many(*crowd, source)?;
                compile(&policy.spec, &policy.namespace, source, propagation).map_err(|why| why.to_string())
            });
        match outcome {
            Ok(compiled) => planned.push(Planned { policy, compiled }),
            Err(why) => faults.push(format!("{}: {why}", policy.origin)),
        }
    }
    if faults.is_empty() {
        Ok(planned)
    } else {
        Err(Failure::invalid(faults.join("\n")))
    }
}

/// Refuses more targets than a namespace may have, as the operator would. What else is in the namespace is not looked at.
fn not_too_many(targets: usize, source: &DeclaredSource) -> Result<(), String> {
    match source.ceilings.max_targets_per_namespace {
        Some(most) if targets > most => Err(format!(
            "spec.targets: source {} allows {most} targets in a namespace, and these are {targets}; remove some, or ask \
             the administrator to raise ceilings.maxTargetsPerNamespace",
            source.settings.name
        )),
        _ => Ok(()),
    }
}
