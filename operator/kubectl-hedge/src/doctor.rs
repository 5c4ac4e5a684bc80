//! `kubectl hedge doctor`: what is wrong, and what to do.

mod mounts;
mod rights;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use comfy_table::Color;
use hedgerow::cluster::check_served_schema;
use hedgerow::exit::{DECIDED, INCOMPLETE, Outcome};
use hedgerow::print;
use hedgerow_api::{ConditionReason, ConditionType, HedgePolicyStatus, TargetStatus};
use hedgerow_tuner::UnknownReason;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::explain::{Trouble, of_policy};
use crate::leader::{self, Leader};
use crate::output::{self, is_coloured};
use crate::reasons::{self, remedy};
use crate::session::{Policy, Session, key, say};
use crate::status::behind;
use crate::stops;

/// What was found out.
#[derive(Debug, Serialize)]
struct Report {
    findings: Vec<Finding>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Finding {
    level: Level,
    /// What it is about.
    about: String,
    /// What is so, and what to do.
    text: String,
}

/// How a finding is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// As it should be.
    Ok,
    /// Somebody meant it, and it is good to know.
    Note,
    /// It could not be looked at.
    Unknown,
    /// Something to mend.
    Problem,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Problem => "PROBLEM",
        }
    }

    const fn color(self) -> Color {
        match self {
            Self::Ok => Color::Green,
            Self::Note | Self::Unknown => Color::Yellow,
            Self::Problem => Color::Red,
        }
    }
}

/// What has been found so far.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, level: Level, about: &str, text: impl Into<String>) {
        self.0.push(Finding {
            level,
            about: about.to_owned(),
            text: text.into(),
        });
    }

    /// Adds each text, or that all is well where there is none.
    fn all(&mut self, level: Level, about: &str, texts: Vec<String>, well: &str) {
        if texts.is_empty() {
            self.add(Level::Ok, about, well);
        }
        for text in texts {
            self.add(level, about, text);
        }
    }
}

/// Runs it.
pub(crate) async fn run(session: &Session, args: &DoctorArgs) -> Outcome {
    let mut findings = Findings::default();
    let within = session.namespace_said.then_some(session.namespace.as_str());
    crd(session, &mut findings).await;
    let leader = operator(session, &mut findings).await;
    // Without the policies there is nothing to look at; why they cannot be had ends it.
    let policies = session.policies(within).await?;
    let of_policies = policies.iter().map(|policy| key(policy).namespace);
    let namespaces: BTreeSet<String> = of_policies.collect();
    let nudging = policies.iter().filter(|policy| nudges(policy));
    let nudging: BTreeSet<String> = nudging.map(|policy| key(policy).namespace).collect();
    let within = (&namespaces, &nudging);
    rights(session, args, leader.as_ref(), within, &mut findings).await;
    if policies.is_empty() {
        findings.add(Level::Note, "policies", "there are none");
    }
    for policy in &policies {
        health(policy, &mut findings);
    }
    mounted(session, &policies, &mut findings).await;
    stopped(session, &policies, &namespaces, &mut findings).await;

    let report = Report { findings: findings.0 };
    match args.output {
        Some(format) => output::machine(format, &report)?,
        None => print::stdout(&render(&report, is_coloured()))?,
    };
    let is_well = report
        .findings
        .iter()
        .all(|finding| finding.level != Level::Problem);
    output::ended(if is_well { DECIDED } else { INCOMPLETE })
}

async fn crd(session: &Session, findings: &mut Findings) {
    match check_served_schema(&session.client).await {
        Ok(()) => findings.add(Level::Ok, "CRD", "it is served, with every field of this version"),
        Err(why) => findings.add(Level::Problem, "CRD", why.to_string()),
    }
}

async fn operator(session: &Session, findings: &mut Findings) -> Option<Leader> {
    match leader::find(session).await {
        Err(why) => {
            let level = if why.nobody_leads {
                Level::Problem
            } else {
                Level::Unknown
            };
            findings.add(level, "operator", why.text);
            None
        }
        Ok(leader) if leader.is_alive() => {
            let (pod, silent) = (&leader.pod, leader.silent.as_secs());
            findings.add(
                Level::Ok,
                "operator",
                format!(
                    "{pod} leads in namespace {}; it gave a sign of life {silent} s ago",
                    leader.namespace
                ),
            );
            Some(leader)
        }
        Ok(leader) => {
            findings.add(
                Level::Problem,
                "operator",
                format!(
                    "{}: no replica runs, so that nothing is decided. Look at the pods of namespace {}",
                    leader.last_known(),
                    leader.namespace
                ),
            );
            Some(leader)
        }
    }
}

async fn rights(
    session: &Session,
    args: &DoctorArgs,
    leader: Option<&Leader>,
    (namespaces, nudging): (&BTreeSet<String>, &BTreeSet<String>),
    findings: &mut Findings,
) {
    let about = "rights";
    let Some(leader) = leader else {
        findings.add(
            Level::Unknown,
            about,
            "they are not looked at: the operator's namespace is not known",
        );
        return;
    };
    let account = match &args.service_account {
        Some(account) => account.clone(),
        None => account_of(session, leader)
            .await
            .unwrap_or_else(|| "hedgerow".to_owned()),
    };
    match rights::missing(session, &leader.namespace, &account, namespaces, nudging).await {
        Ok(missing) => findings.all(
            Level::Problem,
            about,
            missing
                .into_iter()
                .map(|right| format!("service account {}/{account} may not {right}", leader.namespace))
                .collect(),
            &format!(
                "service account {}/{account} has every right that it needs",
                leader.namespace
            ),
        ),
        Err(why) => findings.add(
            Level::Unknown,
            about,
            format!("they could not be looked at: {}", say(&why)),
        ),
    }
}

/// Whether it names pods that shall read a safer document at once.
fn nudges(policy: &Policy) -> bool {
    let mut outputs = policy.spec["publish"].as_array().into_iter().flatten();
    outputs.any(|output| !output["nudgePods"].is_null())
}

async fn account_of(session: &Session, leader: &Leader) -> Option<String> {
    let pods: Api<Pod> = Api::namespaced(session.client.clone(), &leader.namespace);
    let pod = pods.get_opt(&leader.pod).await.ok().flatten()?;
    pod.spec?.service_account_name
}

/// How a policy is, by its own status: its source, its metrics, its documents.
fn health(policy: &Policy, findings: &mut Findings) {
    let about = format!("policy {}", key(policy));
    let status = policy.status.clone().unwrap_or_default();
    if status.observed_generation.is_none() {
        let text =
            "no operator has come to it: does one run, and does it watch this namespace (watchNamespaces)?";
        findings.add(Level::Problem, &about, text);
        return;
    }
    let mut found: Vec<(Level, String)> = Vec::new();
    found.extend(behind(policy).map(|behind| (Level::Problem, behind)));
    let source_fails = |trouble: &Trouble| trouble.reason == ConditionReason::SourceFailing.as_str();
    let troubles = of_policy(&status);
    // Where the source answers nothing, each reading says the same once more.
    let unread = if troubles.iter().any(source_fails) {
        Vec::new()
    } else {
        unread(&status)
    };
    let troubles = troubles
        .into_iter()
        .filter(|trouble| trouble.condition != ConditionType::SignalsAvailable || unread.is_empty());
    found.extend(troubles.map(|trouble| (level(&trouble.reason), trouble.text)));
    found.extend(unread);
    if found.is_empty() {
        let text = "it is accepted, its signals are read and its documents are written";
        findings.add(Level::Ok, &about, text);
    }
    for (level, text) in found {
        findings.add(level, &about, text);
    }
}

/// The readings that are unknown, with what to do.
fn unread(status: &HedgePolicyStatus) -> Vec<(Level, String)> {
    let told = |what: String, reason: &Option<String>, message: &Option<String>| {
        let reason = reason.as_ref()?;
        let message = message.as_deref().unwrap_or_default();
        let remedy = remedy(&[reasons::UNKNOWN], reason)
            .map_or_else(String::new, |remedy| format!(". To do: {remedy}"));
        Some((
            level(reason),
            format!("{what} is unknown, {reason}: {message}{remedy}"),
        ))
    };
    let of_target = |target: &TargetStatus| {
        let latency = target.readings.iter();
        let latency = latency.filter_map(|readings| {
            told(
                format!("the latency of {}", target.name),
                &readings.reason,
                &readings.message,
            )
        });
        let signals = target.signals.iter();
        let signals = signals.filter_map(|signal| {
            told(
                format!("signal {} of {}", signal.name, target.name),
                &signal.reason,
                &signal.message,
            )
        });
        latency.chain(signals).collect::<Vec<_>>()
    };
    status.targets.iter().flat_map(of_target).collect()
}

/// How bad it is. A quiet service and a policy that is new need nobody.
fn level(reason: &str) -> Level {
    let harmless = [
        UnknownReason::NoTraffic.as_str(),
        UnknownReason::TooFewSamples.as_str(),
        ConditionReason::Pending.as_str(),
    ];
    if harmless.contains(&reason) {
        Level::Note
    } else {
        Level::Problem
    }
}

/// Whether pods mount documents in a way that never follows.
async fn mounted(session: &Session, policies: &[Policy], findings: &mut Findings) {
    let mut config_maps: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for policy in policies {
        let outputs = policy.spec["publish"].as_array().into_iter().flatten();
        let names = outputs
            .filter_map(|output| output["configMap"].as_str())
            .map(str::to_owned);
        config_maps
            .entry(key(policy).namespace)
            .or_default()
            .extend(names);
    }
    let about = "mounts";
    let mut frozen = Vec::new();
    for (namespace, names) in &config_maps {
        let pods: Api<Pod> = Api::namespaced(session.client.clone(), namespace);
        match pods.list(&kube::api::ListParams::default()).await {
            Ok(pods) => frozen.extend(pods.items.iter().flat_map(|pod| mounts::frozen(pod, names))),
            Err(why) => findings.add(
                Level::Unknown,
                about,
                format!(
                    "the pods of namespace {namespace} could not be looked at: {}",
                    say(&why)
                ),
            ),
        }
    }
    findings.all(
        Level::Problem,
        about,
        frozen,
        "no pod uses a document in a way that never follows it",
    );
}

async fn stopped(
    session: &Session,
    policies: &[Policy],
    namespaces: &BTreeSet<String>,
    findings: &mut Findings,
) {
    let namespaces: Vec<String> = namespaces.iter().cloned().collect();
    let (mut stops, unseen) = stops::in_force(session, &namespaces).await;
    let by_policy = policies.iter().filter_map(|policy| {
        let why = stops::still_stopped(policy)?;
        Some(format!("{} is stopped: {why}", key(policy)))
    });
    stops.extend(by_policy);
    findings.all(Level::Note, "stops", stops, "nobody has stopped anything");
    for text in unseen {
        findings.add(Level::Unknown, "stops", text);
    }
}

fn render(report: &Report, coloured: bool) -> String {
    let mut text = String::new();
    for finding in &report.findings {
        let level = format!("{:<8}", finding.level.as_str());
        let level = if coloured {
            paint(&level, finding.level.color())
        } else {
            level
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{level} {}: {}", finding.about, finding.text);
    }
    let problems = report
        .findings
        .iter()
        .filter(|finding| finding.level == Level::Problem);
    let _ = match problems.count() {
        0 => writeln!(text, "\nnothing is wrong"),
        1 => writeln!(text, "\n1 problem"),
        more => writeln!(text, "\n{more} problems"),
    };
    text
}

fn paint(text: &str, color: Color) -> String {
    let code = match color {
        Color::Green => 32,
        Color::Yellow => 33,
        _ => 31,
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::{golden, policies};

    #[test]
    fn what_is_wrong_with_policies_is_said_with_what_to_do() {
        let mut findings = Findings::default();
        for policy in policies() {
            health(&policy, &mut findings);
        }
        golden("doctor.txt", &render(&Report { findings: findings.0 }, false));
    }
}
