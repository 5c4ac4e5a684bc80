//! Policies in Git: the tools that apply them find nothing to do, and what a person stopped stays stopped.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hedgerow_tests::{Mark, eventually, output_of, program, steadily};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::policy::{KEY, policy, with};
use crate::scene::{SOON, Scene, document};
use crate::shared;

/// How a policy comes from Git to the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// `kubectl apply`, which is also how Argo CD applies when nothing else is said.
    Kubectl,
    /// `kubectl apply --server-side`.
    ServerSide,
    /// Argo CD with `ServerSideApply=true`.
    ArgoCd,
    /// Flux, by its own code.
    Flux,
}

impl Way {
    const ALL: [Self; 4] = [Self::Kubectl, Self::ServerSide, Self::ArgoCd, Self::Flux];

    /// What kubectl is told, but for Flux.
    const fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl | Self::Flux => &[],
            Self::ServerSide => &["--server-side"],
            Self::ArgoCd => &[
                "--server-side",
                "--force-conflicts",
                "--field-manager=argocd-controller",
            ],
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Kubectl => "kubectl",
            Self::ServerSide => "server-side",
            Self::ArgoCd => "argo-cd",
            Self::Flux => "flux",
        }
    }

    /// Applies it, and returns what the tool said.
    async fn apply(self, policy: &Value) -> String {
        if self == Self::Flux {
            return by_flux(policy).await.unwrap();
        }
        self.kubectl("apply", policy).await.unwrap()
    }

    /// What the tool would change; nothing when it has nothing to do.
    async fn difference(self, policy: &Value) -> Result<String> {
        self.kubectl("diff", policy).await
    }

    async fn kubectl(self, verb: &str, policy: &Value) -> Result<String> {
        let kubectl = shared::cluster().await.kubectl()?;
        let arguments = [&[verb, "--filename=-"], self.flags()].concat();
        let output = kubectl.output(&arguments, &policy.to_string()).await?;
        // `kubectl diff` ends with 1 when there is one, and with more when it fails.
        if !output.success && (verb != "diff" || output.stdout.is_empty()) {
            bail!("kubectl {arguments:?}: {}", output.stderr);
        }
        Ok(output.stdout)
    }
}

/// Flux's own code, which reads the same kubeconfig.
async fn by_flux(policy: &Value) -> Result<String> {
    let kubeconfig = shared::cluster().await.admin().kubeconfig();
    let mut command = Command::new(program("flux")?);
    command.arg("apply").arg(kubeconfig);
    output_of(command, &policy.to_string()).await?.printed()
}

/// A policy as it lies in Git, published to a ConfigMap of its own name.
fn in_git(scene: &Scene, name: &str) -> Value {
    let policy = with(policy(name), "/spec/publish/0/configMap", json!(name));
    with(policy, "/metadata/namespace", json!(scene.namespace.name()))
}

async fn says(scene: &Scene, policy: &str, reason: &str) {
    eventually(&format!("{policy} is {reason}"), SOON, async || {
        let document = document(&scene.namespace, policy, KEY).await?;
        ensure!(document["reason"] == reason, "it says {document}");
        Ok(())
    })
    .await
    .unwrap_or_else(|error| panic!("{error:#}\n{}", scene.operator.log_tail()));
}

/// Everything of a policy that is not its status.
async fn desired(scene: &Scene, name: &str) -> Value {
    let managed = ["get", "hp", name, "-o", "json", "--show-managed-fields"];
    let text = scene.namespace.kubectl(&managed).await.unwrap();
    let mut policy: Value = serde_json::from_str(&text).unwrap();
    policy.as_object_mut().unwrap().remove("status");
    let metadata = policy["metadata"].as_object_mut().unwrap();
    metadata.remove("resourceVersion");
    let fields = metadata["managedFields"].as_array_mut().unwrap();
    fields.retain(|entry| entry["subresource"] != "status");
    policy
}

#[tokio::test]
async fn applying_the_same_again_changes_nothing_once_it_is_decided() {
    let scene = Scene::start("again").await;
    for way in Way::ALL {
        way.apply(&in_git(&scene, way.name())).await;
    }
    for decided in ["Tuned", "Saturated"] {
        if decided == "Saturated" {
            scene.service.queue(100.0);
        }
        for way in Way::ALL {
            let policy = in_git(&scene, way.name());
            says(&scene, way.name(), decided).await;
            let before = desired(&scene, way.name()).await;
            if way != Way::Flux {
                assert_eq!(way.difference(&policy).await.unwrap(), "", "{way:?}, {decided}");
            }
            let said = way.apply(&policy).await;
            // kubectl tells here what it sends: lists whole, without the defaults that the server then finds missing.
            if way == Way::Flux {
                assert!(said.contains("unchanged"), "{decided}: {said}");
            }
            assert_eq!(desired(&scene, way.name()).await, before, "{way:?}, {decided}");
        }
    }
}

#[tokio::test]
async fn a_change_is_seen_as_one() {
    let scene = Scene::start("changed").await;
    for way in [Way::Kubectl, Way::ServerSide, Way::ArgoCd] {
        let policy = in_git(&scene, way.name());
        way.apply(&policy).await;
        let changed = with(policy, "/spec/interval", json!("7s"));
        let difference = way.difference(&changed).await.unwrap();
        assert!(difference.contains("interval: 7s"), "{way:?}: {difference}");
    }
}

#[tokio::test]
async fn the_operator_writes_nothing_of_a_policy_but_its_status() {
    let scene = Scene::start("status-only").await;
    let labelled = json!({ "name": "kb", "labels": { "team": "search" }, "annotations": { "note": "ours" } });
    let git = with(in_git(&scene, "kb"), "/metadata", labelled);
    scene.apply(&git).await;
    says(&scene, "kb", "Tuned").await;
    scene.service.queue(100.0);
    says(&scene, "kb", "Saturated").await;
    scene
        .condition("kb", "HedgingDisabled", "True", "Saturated")
        .await;

    let written = scene.writes(Mark::default());
    let of_policies: Vec<_> = written
        .iter()
        .filter(|write| write.contains("hedgepolicies"))
        .collect();
    assert!(!of_policies.is_empty(), "{written:#?}");
    let status = format!(" hedgepolicies/status {}/kb", scene.namespace.name());
    assert!(
        of_policies.iter().all(|write| write.ends_with(&status)),
        "{of_policies:#?}"
    );

    let live = desired(&scene, "kb").await;
    assert_eq!(live["metadata"]["generation"], 1);
    for place in ["labels", "annotations"] {
        assert_eq!(live["metadata"][place], git["metadata"][place]);
    }
    // What is left after those of the status is the person's alone.
    let managers = live["metadata"]["managedFields"].as_array().unwrap();
    assert!(
        managers.iter().all(|entry| entry["manager"] == "kubectl"),
        "{managers:#?}"
    );
}

#[tokio::test]
async fn a_stop_by_hand_survives_flux() {
    a_stop_survives(Way::Flux).await;
}

#[tokio::test]
async fn a_stop_by_hand_survives_argo_cd() {
    a_stop_survives(Way::ArgoCd).await;
}

#[tokio::test]
async fn a_stop_by_hand_survives_kubectl_apply() {
    a_stop_survives(Way::Kubectl).await;
}

/// By the annotation and by the ConfigMap, as `kubectl hedge off` writes them; also over a change in Git.
async fn a_stop_survives(way: Way) {
    let scene = Scene::start(way.name()).await;
    let names = ["by-annotation", "by-config-map"];
    for name in names {
        way.apply(&in_git(&scene, name)).await;
        says(&scene, name, "Tuned").await;
    }
    let manager = "--field-manager=hedgerow-cli";
    let annotate = [
        "annotate",
        manager,
        "hp",
        "by-annotation",
        "hedgerow.dev/off=drill",
    ];
    scene.namespace.kubectl(&annotate).await.unwrap();
    let create = [
        "create",
        manager,
        "configmap",
        "hedgerow-off",
        "--from-literal=policies=by-config-map",
    ];
    scene.namespace.kubectl(&create).await.unwrap();
    for name in names {
        says(&scene, name, "Stopped").await;
    }

    for name in names {
        let policy = in_git(&scene, name);
        way.apply(&policy).await;
        way.apply(&with(policy, "/spec/interval", json!("6s"))).await;
    }
    steadily("both stay stopped", Duration::from_secs(15), async || {
        for name in names {
            let document = document(&scene.namespace, name, KEY).await?;
            ensure!(document["reason"] == "Stopped", "{name} says {document}");
        }
        Ok(())
    })
    .await
    .unwrap();
    let stopped = desired(&scene, "by-annotation").await;
    assert_eq!(stopped["metadata"]["annotations"]["hedgerow.dev/off"], "drill");
    assert_eq!(stopped["spec"]["interval"], "6s", "the change in Git has come");
}

/// Why `kubectl hedge off` has a field manager of its own, and the documents warn of this.
#[tokio::test]
async fn flux_undoes_an_annotation_that_kubectl_wrote() {
    let scene = Scene::start("undone").await;
    let policy = in_git(&scene, "kb");
    Way::Flux.apply(&policy).await;
    let annotate = ["annotate", "hp", "kb", "hedgerow.dev/off=drill"];
    scene.namespace.kubectl(&annotate).await.unwrap();
    says(&scene, "kb", "Stopped").await;
    Way::Flux.apply(&policy).await;
    let live = desired(&scene, "kb").await;
    assert_eq!(live["metadata"]["annotations"]["hedgerow.dev/off"], Value::Null);
    says(&scene, "kb", "Tuned").await;
}
