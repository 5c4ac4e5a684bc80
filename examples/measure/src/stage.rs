//! What all cases share: a control plane, Prometheus, and one operator.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::{Context, Result};
use hedgerow_api::HedgePolicy;
use hedgerow_stage::{ControlPlane, NAMESPACE};
use hedgerow_tests::{Credentials, Process, Prometheus, PrometheusOptions, free_port};
use kube::Api;
use serde_json::{Value, json};

use crate::scenario::Scenario;

/// What a policy publishes, in a ConfigMap named after the case.
pub(crate) const KEY: &str = "shard-read.json";
/// Hedges per 100 calls at most: the default, written out because it is checked.
pub(crate) const BUDGET_PERCENT: f64 = 10.0;
/// What a client saves of them at least, as documents say: `budget.burst`.
pub(crate) const BURST: f64 = 10.0;

/// What all cases share. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    _operator: Process,
    _prometheus: Prometheus,
    places: BTreeMap<Scenario, Place>,
    front_end: Credentials,
    policies: Api<HedgePolicy>,
    plane: ControlPlane,
}

/// Where Prometheus looks for the programs of a case. Chosen before they start, so that one Prometheus serves all cases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The control port of the servers.
    pub servers: SocketAddr,
    /// The front end.
    pub front_end: SocketAddr,
}

/// What the operator says of a case now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Said {
    /// Hedging, Ramping or NotHedging.
    pub state: String,
    /// Why, and every diagnosis.
    pub reasons: Vec<String>,
    /// The reason of the condition `Effective` while that is False.
    pub ineffective: Option<String>,
    /// The delay in use.
    pub delay: Option<String>,
}

impl Stage {
    /// Starts all of it.
    pub(crate) async fn set(scenarios: &[Scenario]) -> Result<Self> {
        let plane = ControlPlane::set("measure").await?;
        let mut prometheus = PrometheusOptions::new().folder(plane.folder().join("prometheus"));
        let mut places = BTreeMap::new();
        for &scenario in scenarios {
            let place = Place {
                servers: (Ipv4Addr::LOCALHOST, free_port()?).into(),
                front_end: (Ipv4Addr::LOCALHOST, free_port()?).into(),
            };
            prometheus = prometheus
                .job(&servers_job(scenario), place.servers)
                .job(&front_end_job(scenario), place.front_end);
            places.insert(scenario, place);
        }
        let prometheus = prometheus.start().await?;
        let operator = plane
            .operator(&prometheus, &format!("127.0.0.1:{}", free_port()?))
            .await?;
        allow(&plane, scenarios).await?;
        Ok(Self {
            front_end: plane.front_end().await?,
            policies: Api::namespaced(plane.cluster().client().await?, NAMESPACE),
            _operator: operator,
            _prometheus: prometheus,
            places,
            plane,
        })
    }

    /// Where logs are.
    pub(crate) fn folder(&self) -> &Path {
        self.plane.folder()
    }

    /// The kubeconfig of front ends.
    pub(crate) fn kubeconfig(&self) -> &Path {
        self.front_end.kubeconfig()
    }

    /// Where Prometheus looks for a case.
    pub(crate) fn place(&self, scenario: Scenario) -> Result<Place> {
        self.places
            .get(&scenario)
            .copied()
            .context("the case was not planned")
    }

    /// Applies the policy of a case.
    pub(crate) async fn apply(&self, scenario: Scenario) -> Result<()> {
        self.plane.kubectl().apply(&policy(scenario).to_string()).await?;
        Ok(())
    }

    /// What the operator says of it.
    pub(crate) async fn said(&self, scenario: Scenario) -> Result<Said> {
        let policy = self.policies.get(scenario.name()).await?;
        let Some(status) = policy.status else {
            return Ok(Said::default());
        };
        let ineffective = status
            .conditions
            .into_iter()
            .find(|condition| condition.type_ == "Effective" && condition.status == "False")
            .map(|condition| condition.reason);
        let target = status.targets.into_iter().next();
        Ok(target.map_or_else(Said::default, |target| Said {
            ineffective,
            state: target.state.unwrap_or_default(),
            reasons: target
                .reason
                .into_iter()
                .chain(target.diagnoses.into_iter().map(|diagnosis| diagnosis.reason))
                .collect(),
            delay: target.delay.and_then(|delay| delay.applied),
        }))
    }
}

/// Lets front ends read the ConfigMaps of the cases.
async fn allow(plane: &ControlPlane, scenarios: &[Scenario]) -> Result<()> {
    let names: Vec<_> = scenarios
        .iter()
        .map(|scenario| format!("--resource-name={}", scenario.name()))
        .collect();
    let role = ["create", "role", "read-measured", "-n", NAMESPACE];
    let rights = ["--verb=get,list,watch", "--resource=configmaps"];
    let arguments: Vec<&str> = role
        .into_iter()
        .chain(rights)
        .chain(names.iter().map(String::as_str))
        .collect();
    plane.kubectl().run(&arguments).await?;
    let account = format!("--serviceaccount={NAMESPACE}:front");
    let binding = ["create", "rolebinding", "read-measured", "-n", NAMESPACE];
    let arguments = [&binding[..], &["--role=read-measured", &account]].concat();
    plane.kubectl().run(&arguments).await?;
    Ok(())
}

fn servers_job(scenario: Scenario) -> String {
    format!("{}-servers", scenario.name())
}

fn front_end_job(scenario: Scenario) -> String {
    format!("{}-front-end", scenario.name())
}

/// As a user would write it, with the short intervals of the demo. The line of the queue is for servers whose callers give
/// up after a second: a queue cannot be longer than what comes in that time.
///
/// Latency and counters are the client's own where their preset is what shows the case; elsewhere the service has buckets as
/// narrow as one would wish.
fn policy(scenario: Scenario) -> Value {
    let labels = json!({ "job": front_end_job(scenario) });
    let counter =
        |name: &str| json!({ "rateOf": format!("hedgerow_client_{name}_total"), "matchLabels": labels });
    let mut target = json!({
        "name": "shard-read",
        "idempotent": true,
        "fanOut": 8,
        "deadline": "1s",
        "budget": { "percent": BUDGET_PERCENT.to_string() },
        "saturation": {
            "signals": [{
                "name": "queue",
                "metric": "shard_queue_depth",
                "matchLabels": { "job": servers_job(scenario) },
                "offAbove": "8",
            }],
            "cooldown": "10s",
            "rampStep": "2s",
        },
    });
    if scenario == Scenario::SlowTogether {
        target["latency"] =
            json!({ "preset": "HedgerowClient", "matchLabels": labels, "window": "1m", "minSamples": 5000 });
        // Room to either side: until it is known that replicas are slow together, the delay is taken to be longer.
        target["delay"] = json!({ "min": "40ms" });
    } else {
        target["latency"] = json!({
            "metric": "shard_read_duration_seconds",
            "measures": "LogicalCall",
            "matchLabels": labels,
            "timeouts": { "rateOf": "shard_read_timeouts_total", "matchLabels": labels },
            "window": "1m",
        });
        target["hedging"] = json!({
            "calls": counter("calls"),
            "hedges": counter("hedges"),
            "blocked": counter("blocked"),
            "wins": counter("wins"),
        });
    }
    json!({
        "apiVersion": "hedgerow.dev/v1alpha1",
        "kind": "HedgePolicy",
        "metadata": { "name": scenario.name(), "namespace": NAMESPACE },
        "spec": {
            "interval": "5s",
            "saturationInterval": "1s",
            "targets": [target],
            "publish": [{ "configMap": scenario.name(), "key": KEY, "targets": [{ "name": "shard-read" }] }],
        },
    })
}
