//! The cluster that is spoken to, and where in it.

use std::time::Duration;

use hedgerow::causes::with_causes;
use hedgerow::cluster::PolicyKey;
use hedgerow::exit::Failure;
use hedgerow_api::{HedgePolicy, HedgePolicyStatus};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{ApiResource, ListParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Object;
use kube::{Api, Client, Config};
use serde_json::Value;

use crate::cli::Place;

/// A policy as this program reads it: whatever version wrote its spec and status, it can be shown.
pub(crate) type Policy = Object<Value, HedgePolicyStatus>;

/// The operator's namespace where nothing tells of another.
const USUAL_NAMESPACE: &str = "hedgerow-system";

/// How long one request may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The cluster that is spoken to, and where in it.
pub(crate) struct Session {
    pub(crate) client: Client,
    /// The namespace of the policies.
    pub(crate) namespace: String,
    /// Whether it was said on the command line.
    pub(crate) namespace_said: bool,
    /// The name of the operator's Lease.
    pub(crate) lease: String,
    operator_namespace: Option<String>,
}

impl Session {
    /// The cluster that `place` and the kubeconfig name.
    pub(crate) async fn open(place: &Place) -> Result<Self, Failure> {
        let options = KubeConfigOptions {
            context: place.context.clone(),
            ..KubeConfigOptions::default()
        };
        let config = match &place.kubeconfig {
            Some(file) => match Kubeconfig::read_from(file) {
                Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await,
                Err(why) => return Err(Failure::invalid(format!("--kubeconfig: {why}"))),
            },
            None => Config::from_kubeconfig(&options).await,
        };
        let mut config = config.map_err(|why| Failure::invalid(format!("the kubeconfig: {why}")))?;
        // A person waits: no silent retries for minutes, as kube has them by default.
        config.default_retry = false;
        config.connect_timeout = Some(Duration::from_secs(5));
        config.read_timeout = Some(ANSWER_WITHIN);
        let namespace = place.namespace.clone();
        let namespace_said = namespace.is_some();
        let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
        Ok(Self {
            client: Client::try_from(config).map_err(Failure::invalid)?,
            namespace,
            namespace_said,
            lease: place.lease.clone(),
            operator_namespace: place.operator_namespace.clone(),
        })
    }

    /// The policies of a namespace, or of all.
    pub(crate) async fn policies(&self, namespace: Option<&str>) -> Result<Vec<Policy>, Failure> {
        let policies = policy_api(&self.client, namespace);
        let list = policies.list(&ListParams::default()).await;
        Ok(list.map_err(|why| failure("the policies", &why))?.items)
    }

    /// One policy of the namespace.
    pub(crate) async fn policy(&self, name: &str) -> Result<Policy, Failure> {
        let found = policy_api(&self.client, Some(&self.namespace))
            .get_opt(name)
            .await;
        let found = found.map_err(|why| failure("the policy", &why))?;
        match found {
            Some(policy) => Ok(policy),
            None => Err(Failure::failed(self.there_is_no(name).await)),
        }
    }

    /// That there is no such policy, and which there are.
    pub(crate) async fn there_is_no(&self, name: &str) -> String {
        let all = match self.policies(Some(&self.namespace)).await {
            Ok(all) => all,
            Err(failure) => return failure.to_string(),
        };
        let names: Vec<String> = all.iter().map(|policy| key(policy).name).collect();
        let namespace = &self.namespace;
        if names.is_empty() {
            format!(
                "there is no policy {name} in namespace {namespace}, nor any other: name the namespace by -n"
            )
        } else {
            format!(
                "there is no policy {name} in namespace {namespace}; there are {}",
                names.join(", ")
            )
        }
    }

    /// The operator's namespace, as far as it can be known.
    pub(crate) async fn home(&self) -> Home {
        if let Some(said) = &self.operator_namespace {
            return Home::Known(said.clone());
        }
        let by_name = ListParams::default().fields(&format!("metadata.name={}", self.lease));
        let leases: Api<Lease> = Api::all(self.client.clone());
        let found = match leases.list(&by_name).await {
            Ok(leases) => leases.items,
            Err(why) => return Home::Assumed(format!("Leases may not be listed: {}", say(&why))),
        };
        let mut namespaces: Vec<String> = found
            .into_iter()
            .filter_map(|lease| lease.metadata.namespace)
            .collect();
        match namespaces.len() {
            0 => Home::Assumed(format!("there is no Lease {}", self.lease)),
            1 => Home::Known(namespaces.remove(0)),
            _ => Home::OneOf(namespaces),
        }
    }
}

/// What is known of the operator's namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// It was said, or its Lease is the only one of its name.
    Known(String),
    /// It is taken to be the usual one, with why no other was found.
    Assumed(String),
    /// Several installs have a Lease of this name, in these namespaces.
    OneOf(Vec<String>),
}

impl Home {
    /// The one namespace that a command for the operator goes to.
    pub(crate) fn one(&self) -> Result<&str, Failure> {
        match self {
            Self::Known(namespace) => Ok(namespace),
            Self::Assumed(_) => Ok(USUAL_NAMESPACE),
            Self::OneOf(namespaces) => Err(Failure::invalid(format!(
                "several operators are installed, in {}: name one by --operator-namespace",
                namespaces.join(", ")
            ))),
        }
    }

    /// Whether a stop in this namespace is one for everything.
    pub(crate) fn is(&self, namespace: &str) -> bool {
        match self {
            Self::Known(known) => known == namespace,
            Self::Assumed(_) => namespace == USUAL_NAMESPACE,
            Self::OneOf(namespaces) => namespaces.iter().any(|one| one == namespace),
        }
    }

    /// Every namespace that may hold a stop for everything.
    pub(crate) fn candidates(&self) -> Vec<&str> {
        match self {
            Self::Known(namespace) => vec![namespace],
            Self::Assumed(_) => vec![USUAL_NAMESPACE],
            Self::OneOf(namespaces) => namespaces.iter().map(String::as_str).collect(),
        }
    }
}

fn policy_api(client: &Client, namespace: Option<&str>) -> Api<Policy> {
    let resource = ApiResource::erase::<HedgePolicy>(&());
    match namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// The name of a policy.
pub(crate) fn key(policy: &Policy) -> PolicyKey {
    PolicyKey::of(&policy.metadata)
}

/// Why the API server did not do it, in a line.
pub(crate) fn say(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => with_causes(other),
    }
}

/// What `error` means for the program, when it asked for `what`.
pub(crate) fn failure(what: &str, error: &kube::Error) -> Failure {
    match error {
        kube::Error::Api(status) if status.code == 404 && what.starts_with("the polic") => Failure::failed(
            "the cluster does not serve HedgePolicy: install its CRD (hedgerow crd | kubectl apply --server-side -f -)",
        ),
        kube::Error::Api(status) => Failure::failed(format!("{what}: {}", status.message)),
        other => Failure::unreachable(format!(
            "{what}: the API server does not answer: {}",
            with_causes(other)
        )),
    }
}
