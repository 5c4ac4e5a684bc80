//! `hedgerow check`: whether the operator of a cluster does its work, asked as a user would. `helm test` runs it.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hedgerow_api::names::GROUP;
use hedgerow_api::{ConditionType, HedgePolicy, HedgePolicyStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::cluster::Clients;
use crate::exit::{Failure, Outcome};
use crate::print;

/// How often it is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// `hedgerow check`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  \
                  hedgerow check --namespace helpdesk\n\n\
                  It needs the rights to create, get and delete HedgePolicies there.\n\n\
                  Exit codes: 0 the policy became ready, 1 it did not.")]
pub struct CheckArgs {
    /// Name of the policy, and of the ConfigMap that it publishes to; one that is there is replaced
    #[arg(long, value_name = "NAME", default_value = "hedgerow-check")]
    pub name: String,
    /// Namespace of the policy
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Source that the policy names
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub source: String,
    /// How long it may take to become ready
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub timeout: Duration,
}

fn duration(text: &str) -> Result<Duration, String> {
    hedgerow_api::text::parse_duration(text).map_err(|why| format!("{text:?} is {why}"))
}

/// Applies a policy in Observe, waits until the operator says that it is ready, prints what it says, and deletes the policy.
///
/// # Errors
/// When the API server refuses, or the policy is not ready in time; says what the operator says of it.
pub async fn run(args: &CheckArgs) -> Outcome {
    let clients = Clients::infer().await.map_err(Failure::failed)?;
    let policies: Api<HedgePolicy> = Api::namespaced(clients.writes, &args.namespace);
    remove(&policies, &args.name).await.map_err(Failure::failed)?;
    let policy = policy(args).map_err(Failure::failed)?;
    policies
        .create(&Default::default(), &policy)
        .await
        .map_err(Failure::failed)?;
    let waited = wait(&policies, args).await;
    let removed = remove(&policies, &args.name).await;
    let status = waited?;
    removed.map_err(Failure::failed)?;
    print::stdout(&told(args, &status))?;
    Ok(ExitCode::SUCCESS)
}

/// The least that a policy says. Its metric need not exist: a policy is ready whatever its signals say.
fn policy(args: &CheckArgs) -> serde_json::Result<HedgePolicy> {
    serde_json::from_value(json!({
        "apiVersion": format!("{GROUP}/v1alpha1"), "kind": "HedgePolicy", "metadata": { "name": args.name },
        "spec": {
            "mode": "Observe",
            "source": args.source,
            "targets": [{
                "name": "check", "idempotent": true,
                "latency": { "metric": "hedgerow_check_seconds", "measures": "LogicalCall" },
            }],
            "publish": [{ "configMap": args.name, "key": "check.json", "targets": [{ "name": "check" }] }],
        },
    }))
}

/// Deletes the policy, if there is one. Nothing finalizes it, so then it is gone.
async fn remove(policies: &Api<HedgePolicy>, name: &str) -> kube::Result<()> {
    match policies.delete(name, &Default::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(drop),
    }
}

/// What the operator says of the policy, once it is ready.
async fn wait(policies: &Api<HedgePolicy>, args: &CheckArgs) -> Result<HedgePolicyStatus, Failure> {
    let end = Instant::now() + args.timeout;
    loop {
        let seen = policies.get(&args.name).await.map_err(Failure::failed)?;
        let status = seen.status.unwrap_or_default();
        let is = |kind| condition(&status, kind).is_some_and(|condition| condition.status == "True");
        if is(ConditionType::Ready) {
            return Ok(status);
        }
        if is(ConditionType::Stalled) || Instant::now() >= end {
            return Err(Failure::failed(not_ready(args, &status)));
        }
        sleep(PAUSE).await;
    }
}

fn condition(status: &HedgePolicyStatus, kind: ConditionType) -> Option<&Condition> {
    status
        .conditions
        .iter()
        .find(|condition| condition.type_ == kind.as_str())
}

fn not_ready(args: &CheckArgs, status: &HedgePolicyStatus) -> String {
    let CheckArgs { namespace, name, .. } = args;
    match status.observed_generation {
        Some(_) => format!("{namespace}/{name} is not ready:\n{}", lines(status)),
        None => format!(
            "nobody has looked at {namespace}/{name}; does the operator run, does one replica lead (its log tells), and does \
             it follow this namespace (watchNamespaces)?"
        ),
    }
}

fn told(args: &CheckArgs, status: &HedgePolicyStatus) -> String {
    format!("{}/{} is ready:\n{}", args.namespace, args.name, lines(status))
}

/// The conditions, one a line.
fn lines(status: &HedgePolicyStatus) -> String {
    let line = |condition: &Condition| {
        let Condition {
            type_: kind,
            status,
            reason,
            message,
            ..
        } = condition;
        format!("  {kind}={status} ({reason}): {message}\n")
    };
    status.conditions.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args() -> CheckArgs {
        CheckArgs {
            name: "check".into(),
            namespace: "helpdesk".into(),
            source: "default".into(),
            timeout: Duration::from_secs(1),
        }
    }

    #[test]
    fn its_policy_is_valid_and_hedges_nothing() {
        let policy = policy(&args()).unwrap();
        assert!(hedgerow_api::validate(&policy.spec).is_ok());
        assert_eq!(policy.spec.mode, hedgerow_api::Mode::Observe);
    }

    #[test]
    fn a_policy_that_nobody_looked_at_is_told_apart_from_one_that_is_refused() {
        let unseen = not_ready(&args(), &HedgePolicyStatus::default());
        assert!(unseen.contains("watchNamespaces"), "{unseen}");
        let refused = serde_json::from_value(json!({
            "observedGeneration": 1,
            "conditions": [{
                "type": "Accepted", "status": "False", "reason": "SourceNotAvailable", "message": "there is no source",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        }))
        .unwrap();
        let refused = not_ready(&args(), &refused);
        assert_eq!(
            refused,
            "helpdesk/check is not ready:\n  Accepted=False (SourceNotAvailable): there is no source\n"
        );
    }
}
