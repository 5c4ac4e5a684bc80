//! A service, the Prometheus that scrapes it, and an operator that tunes it: what most tests are about.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hedgerow_tests::{
    Audit, Cluster, Mark, Namespace, Operator, OperatorOptions, Prometheus, PrometheusOptions, eventually,
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

use crate::policy::{CONFIG_MAP, KEY};
use crate::service::Service;
use crate::shared;

/// Longer than anything takes that is to come at once, on a machine that is busy with other tests.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    pub(crate) audit: Audit,
    /// Before its operator did anything: what is earlier in the log is about other tests.
    pub(crate) begun: Mark,
    /// Where the policies are.
    pub(crate) namespace: Namespace,
    pub(crate) service: Service,
    pub(crate) prometheus: Prometheus,
    pub(crate) operator: Operator,
}

impl Scene {
    /// On the shared control plane, in a namespace of its own.
    pub(crate) async fn start(name: &str) -> Self {
        Self::with_alerts(name, &[]).await
    }

    /// With alerting rules, by name and expression.
    pub(crate) async fn with_alerts(name: &str, alerts: &[(&str, &str)]) -> Self {
        Self::set(shared::cluster().await, shared::namespace(name).await, alerts).await
    }

    /// With an operator that is installed in some way of its own.
    pub(crate) async fn with_operator(
        name: &str,
        change: impl FnOnce(OperatorOptions<'_>) -> OperatorOptions<'_>,
    ) -> Self {
        Self::made(
            shared::cluster().await,
            shared::namespace(name).await,
            &[],
            change,
        )
        .await
    }

    /// On a control plane and in a namespace that exist.
    pub(crate) async fn set(cluster: &Cluster, namespace: Namespace, alerts: &[(&str, &str)]) -> Self {
        Self::made(cluster, namespace, alerts, |operator| operator).await
    }

    async fn made(
        cluster: &Cluster,
        namespace: Namespace,
        alerts: &[(&str, &str)],
        change: impl FnOnce(OperatorOptions<'_>) -> OperatorOptions<'_>,
    ) -> Self {
        let begun = cluster.audit().mark().unwrap();
        let home = cluster
            .namespace(&format!("{}-operator", namespace.name()))
            .await
            .unwrap();
        let service = Service::start().await;
        let job = PrometheusOptions::new().job("kb", service.exposition.address());
        let with_alert =
            |options: PrometheusOptions, (name, expression): &(&str, &str)| options.alert(name, expression);
        let prometheus = alerts.iter().fold(job, with_alert).start().await.unwrap();
        let operator = OperatorOptions::new(cluster, &home, &[&namespace]).source(&prometheus.url());
        let operator = change(operator).start().await.unwrap();
        Self {
            audit: cluster.audit(),
            begun,
            namespace,
            service,
            prometheus,
            operator,
        }
    }

    pub(crate) async fn apply(&self, policy: &Value) {
        self.namespace.apply(&policy.to_string()).await.unwrap();
    }

    /// The document that [`policy`](crate::policy::policy) publishes.
    pub(crate) async fn document(&self) -> Result<Value> {
        document(&self.namespace, CONFIG_MAP, KEY).await
    }

    /// Waits for a document of that policy with this reason, and returns it.
    pub(crate) async fn reason(&self, reason: &str) -> Value {
        self.reason_within(reason, SOON).await
    }

    pub(crate) async fn reason_within(&self, reason: &str, deadline: Duration) -> Value {
        eventually(&format!("the document says {reason}"), deadline, async || {
            let document = self.document().await?;
            ensure!(document["reason"] == reason, "it says {document}");
            Ok(document)
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", self.operator.log_tail()))
    }

    /// Every content that document has had, by the audit log. Writes that change no content (renewals, memory) are left out.
    pub(crate) fn history(&self) -> Vec<Value> {
        self.history_of(CONFIG_MAP)
    }

    /// The same of the one under [`KEY`] of another ConfigMap.
    pub(crate) fn history_of(&self, config_map: &str) -> Vec<Value> {
        let events = self.audit.naming(self.namespace.name(), self.begun).unwrap();
        let written = events.iter().filter(|event| {
            let object = &event.object_ref;
            let ours = object.resource == "configmaps" && object.namespace == self.namespace.name();
            // The name of an object that is created stands in its body alone.
            let named = event.request_object["metadata"]["name"] == config_map || object.name == config_map;
            ours && named && event.is_write() && event.succeeded()
        });
        let texts = written.filter_map(|event| event.request_object["data"][KEY].as_str());
        let mut documents: Vec<Value> = texts.map(|text| serde_json::from_str(text).unwrap()).collect();
        documents.dedup_by_key(|document| document["revision"].clone());
        documents
    }

    /// What the operator has written since `mark`, as `verb resource namespace/name`; its Lease apart.
    pub(crate) fn writes(&self, mark: Mark) -> Vec<String> {
        let events = self.audit.writes_by(self.operator.user(), mark).unwrap();
        let others = events
            .iter()
            .filter(|event| event.object_ref.resource != "leases");
        others
            .map(|event| {
                let object = &event.object_ref;
                let (resource, slash) = (
                    &object.resource,
                    if object.subresource.is_empty() { "" } else { "/" },
                );
                let (sub, namespace, name) = (&object.subresource, &object.namespace, &object.name);
                format!("{} {resource}{slash}{sub} {namespace}/{name}", event.verb)
            })
            .collect()
    }

    /// Waits for a condition of a policy, and returns its message.
    pub(crate) async fn condition(&self, policy: &str, kind: &str, status: &str, reason: &str) -> String {
        let what = format!("{policy} is {kind}={status}, reason {reason}");
        eventually(&what, SOON, async || {
            let policy = self.policy(policy).await?;
            let conditions = policy["status"]["conditions"]
                .as_array()
                .context("no conditions yet")?;
            let condition = conditions.iter().find(|condition| condition["type"] == kind);
            let condition = condition.with_context(|| format!("no {kind} among {conditions:?}"))?;
            ensure!(
                condition["status"] == status && condition["reason"] == reason,
                "it is {condition}"
            );
            Ok(condition["message"].as_str().unwrap_or_default().to_owned())
        })
        .await
        .unwrap_or_else(|error| panic!("{error:#}\n{}", self.operator.log_tail()))
    }

    /// A policy as the API server has it.
    pub(crate) async fn policy(&self, name: &str) -> Result<Value> {
        self.namespace.policy(name).await
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let (operator, prometheus) = (self.operator.folder(), self.prometheus.folder());
            eprintln!("logs: {} and {}", operator.display(), prometheus.display());
        }
    }
}

/// The budgets of a history, in per cent, `None` while off; each once while it lasts.
pub(crate) fn budgets(history: &[Value]) -> Vec<Option<f64>> {
    let mut percents: Vec<_> = history
        .iter()
        .map(|document| document["budget"]["percent"].as_f64())
        .collect();
    percents.dedup();
    percents
}

/// The document under a key of a ConfigMap.
pub(crate) async fn document(namespace: &Namespace, map: &str, key: &str) -> Result<Value> {
    let found = namespace
        .api::<ConfigMap>()
        .get_opt(map)
        .await?
        .with_context(|| format!("no ConfigMap {map}"))?;
    let text = found
        .data
        .as_ref()
        .and_then(|data| data.get(key))
        .with_context(|| format!("no key {key}"))?;
    Ok(serde_json::from_str(text)?)
}
