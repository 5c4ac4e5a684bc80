//! A namespace for one test.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Result;
use http::Request;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1 as core;
use kube::api::ObjectMeta;
use kube::{Api, Client, Resource};
use serde_json::{Value, json};

use crate::Kubectl;

/// A namespace, and its administrator's view of it.
#[derive(Clone)]
pub struct Namespace {
    name: String,
    client: Client,
    kubectl: Kubectl,
}

impl Namespace {
    pub(crate) async fn create(client: Client, kubectl: Kubectl, name: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(1);
        let name = format!("{name}-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let metadata = ObjectMeta {
            name: Some(name.clone()),
            ..Default::default()
        };
        let namespace = core::Namespace {
            metadata,
            ..Default::default()
        };
        Api::all(client.clone())
            .create(&Default::default(), &namespace)
            .await?;
        Ok(Self {
            name,
            client,
            kubectl,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The objects of one kind in it.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// A policy in it, as `kubectl get -o json` tells it; but tests look often, and this takes no process.
    ///
    /// # Errors
    /// When there is none, or the API server does not answer.
    pub async fn policy(&self, name: &str) -> Result<Value> {
        let uri = format!(
            "/apis/hedgerow.dev/v1alpha1/namespaces/{}/hedgepolicies/{name}",
            self.name
        );
        let request = Request::get(uri).body(Vec::new())?;
        let mut policy: Value = self.client.request(request).await?;
        if let Some(metadata) = policy["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Ok(policy)
    }

    /// Has the API server refuse every write of a ConfigMap in it, with the words "not here", a moment from now on. Returns the
    /// name of the policy that does so, and of its binding.
    ///
    /// # Errors
    /// When that is refused, with what kubectl said.
    pub async fn refuse_config_maps(&self) -> Result<String> {
        let name = format!("no-config-maps-{}", self.name);
        let manifest = json!({ "apiVersion": "v1", "kind": "List", "items": [
            {
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
                "metadata": { "name": name },
                "spec": {
                    "matchConstraints": { "resourceRules": [{
                        "apiGroups": [""], "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"],
                    }] },
                    "validations": [{ "expression": "false", "message": "not here" }],
                },
            },
            {
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
                "metadata": { "name": name },
                "spec": {
                    "policyName": name, "validationActions": ["Deny"],
                    "matchResources": { "namespaceSelector": {
                        "matchLabels": { "kubernetes.io/metadata.name": self.name },
                    } },
                },
            },
        ] });
        self.apply(&manifest.to_string()).await?;
        Ok(name)
    }

    /// Applies a manifest to it.
    ///
    /// # Errors
    /// When it is refused, with what kubectl said.
    pub async fn apply(&self, manifest: &str) -> Result<String> {
        self.kubectl.apply_in(&self.name, manifest).await
    }

    /// Creates the object of a manifest in it, as this field manager.
    ///
    /// # Errors
    /// When it is refused, with what kubectl said.
    pub async fn create_as(&self, manager: &str, manifest: &str) -> Result<String> {
        let manager = format!("--field-manager={manager}");
        self.kubectl
            .run_in(&self.name, &["create", &manager], manifest)
            .await
    }

    /// Replaces the status of the object of a manifest.
    ///
    /// # Errors
    /// When it is refused, with what kubectl said.
    pub async fn replace_status(&self, manifest: &str) -> Result<String> {
        let replace = ["replace", "--subresource=status"];
        self.kubectl.run_in(&self.name, &replace, manifest).await
    }

    /// Asks the API server, without storing anything, whether it would take a manifest, unknown fields refused.
    ///
    /// # Errors
    /// When it is refused, with what kubectl said.
    pub async fn try_apply(&self, manifest: &str) -> Result<String> {
        self.kubectl.try_apply_in(&self.name, manifest).await
    }

    /// Runs kubectl in it, and returns what it printed.
    ///
    /// # Errors
    /// When it fails, with what it said.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        self.kubectl
            .run(&[&["--namespace", self.name.as_str()], arguments].concat())
            .await
    }

    /// Asks the API server, without storing anything, whether it would create a `HedgePolicy`, unknown fields refused.
    ///
    /// # Errors
    /// The message that refuses it.
    pub async fn try_create(&self, policy: Value) -> Result<(), String> {
        let uri = format!(
            "/apis/hedgerow.dev/v1alpha1/namespaces/{}/hedgepolicies?dryRun=All&fieldValidation=Strict",
            self.name
        );
        let request = Request::post(uri)
            .header("content-type", "application/json")
            .body(policy.to_string().into_bytes())
            .map_err(|error| error.to_string())?;
        match self.client.request::<Value>(request).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) => Err(status.message),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl Debug for Namespace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Namespace").field(&self.name).finish()
    }
}
