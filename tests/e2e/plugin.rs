//! `kubectl hedge`, through the real kubectl.

use std::os::unix::fs::symlink;

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use hedgerow_tests::{Kubectl, Namespace, Operator, Output, eventually, free_port, kubectl_hedge, scratch};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::policy::{KEY, policy, with};
use crate::scene::{SOON, Scene, document};
use crate::shared;

/// kubectl with the plugin, as a user has it.
struct Person {
    kubectl: Kubectl,
    namespace: String,
    home: String,
}

impl Person {
    /// Somebody who works in a namespace that the operator of `home` looks after.
    async fn new(namespace: &Namespace, home: &str) -> Self {
        let plugins = scratch("plugins").unwrap();
        let program = kubectl_hedge().unwrap();
        for name in ["kubectl-hedge", "kubectl_complete-hedge"] {
            symlink(&program, plugins.join(name)).unwrap();
        }
        Self {
            kubectl: shared::cluster().await.kubectl().unwrap().with_plugins(&plugins),
            namespace: namespace.name().to_owned(),
            home: home.to_owned(),
        }
    }

    /// One who works with the policies of a scene.
    async fn of(scene: &Scene) -> Self {
        Self::new(&scene.namespace, home_of(&scene.operator)).await
    }

    /// `kubectl hedge ...`, in words between spaces, in the namespace.
    async fn types(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split(' ').collect();
        let place = ["-n", &self.namespace, "--operator-namespace", &self.home];
        let all = [&["hedge"], &words[..], &place].concat();
        self.kubectl.output(&all, "").await.unwrap()
    }

    /// The same without the namespace.
    async fn types_of_all(&self, words: &str) -> Output {
        let words: Vec<&str> = words.split(' ').collect();
        let all = [&["hedge"], &words[..], &["--operator-namespace", &self.home]].concat();
        self.kubectl.output(&all, "").await.unwrap()
    }

    /// The same, which must succeed; what it printed.
    async fn does(&self, words: &str) -> String {
        let output = self.types(words).await;
        assert!(output.success, "kubectl hedge {words}: {output:?}");
        output.stdout
    }

    /// The same, which must end with this code; what it said of it.
    async fn fails(&self, words: &str, code: i32) -> String {
        let output = self.types(words).await;
        assert_eq!(output.code, Some(code), "kubectl hedge {words}: {output:?}");
        output.stderr
    }
}

/// The namespace of an operator, of its account `system:serviceaccount:NAMESPACE:NAME`.
fn home_of(operator: &Operator) -> &str {
    operator.user().split(':').nth(2).unwrap()
}

/// A policy that is published to a ConfigMap of its own name.
fn named(name: &str) -> Value {
    with(policy(name), "/spec/publish/0/configMap", json!(name))
}

async fn says(namespace: &Namespace, name: &str, reason: &str) {
    eventually(&format!("{name} is {reason}"), SOON, async || {
        let document = document(namespace, name, KEY).await?;
        ensure!(document["reason"] == reason, "it says {document}");
        Ok(())
    })
    .await
    .unwrap();
}

/// Waits until the status of the only target says so.
async fn told(person: &Person, reason: &str) -> Value {
    eventually(&format!("the status says {reason}"), SOON, async || {
        let report: Value = serde_json::from_str(&person.does("status -o json").await)?;
        ensure!(report["targets"][0]["reason"] == reason, "it says {report}");
        Ok(report["targets"][0].clone())
    })
    .await
    .unwrap()
}

async fn off_config_map(namespace: &Namespace) -> Result<Option<ConfigMap>> {
    Ok(namespace.api::<ConfigMap>().get_opt("hedgerow-off").await?)
}

#[tokio::test]
async fn what_is_decided_is_shown_and_explained() {
    let scene = Scene::start("plugin-shows").await;
    let person = Person::of(&scene).await;
    let none = person.types("status").await;
    assert!(
        none.success && none.stdout.is_empty() && none.stderr.contains("there are no policies"),
        "{none:?}"
    );
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;

    let row = told(&person, "Tuned").await;
    assert_eq!(
        (&row["hedging"], &row["budget"]),
        (&json!("yes"), &json!("10%")),
        "{row}"
    );
    assert_eq!(row["winShare"], Value::Null, "no client counts wins: {row}");
    let table = person.does("status kb").await;
    assert!(
        table.starts_with("POLICY") && table.contains("yes") && table.contains("unknown"),
        "{table}"
    );
    assert!(!table.contains('\u{1b}'), "there is no terminal: {table:?}");

    let alone = person.does("explain kb").await;
    assert!(
        alone.contains("the status alone; the leading replica could not be asked: ")
            && alone.contains("latency     p50 "),
        "{alone}"
    );
    assert!(
        alone.contains("hedging goes off when queue is above 50; it was 3"),
        "{alone}"
    );
    let live = person
        .does(&format!(
            "explain kb --operator-url {}",
            scene.operator.explain_url()
        ))
        .await;
    assert!(
        live.contains("from        the operator at ") && live.contains("query       histogram_quantile"),
        "{live}"
    );

    let history = person.does("history kb").await;
    assert!(
        history.lines().count() >= 3 && history.contains("Ramping"),
        "{history}"
    );
    let missing = person.fails("history no-such", 1).await;
    assert!(missing.contains("there are kb"), "{missing}");

    let proposed = person
        .kubectl
        .output(
            &["__complete", "hedge", "explain", "-n", &person.namespace, ""],
            "",
        )
        .await;
    let proposed = proposed.unwrap().stdout;
    assert!(proposed.lines().any(|line| line == "kb"), "{proposed}");
}

#[tokio::test]
async fn stops_add_up_and_each_is_lifted_by_itself() {
    let scene = Scene::start("plugin-stops").await;
    let person = Person::of(&scene).await;
    for name in ["a", "b"] {
        scene.apply(&named(name)).await;
        says(&scene.namespace, name, "Tuned").await;
    }
    let refused = person.fails("off c", 1).await;
    assert!(
        refused.contains("there are a, b") && refused.contains("Nothing was stopped"),
        "{refused}"
    );
    let unasked = person.fails("off", 2).await;
    assert!(unasked.contains("--yes"), "{unasked}");
    assert!(off_config_map(&scene.namespace).await.unwrap().is_none());

    // It is off when the command returns.
    let stopped = person.does("off a --reason INC-7").await;
    assert!(
        stopped.contains("/a is off: written at ") && stopped.contains("a/shard-read.json"),
        "{stopped}"
    );
    assert_eq!(
        document(&scene.namespace, "a", KEY).await.unwrap()["reason"],
        "Stopped"
    );
    says(&scene.namespace, "b", "Tuned").await;
    let status = scene.policy("a").await.unwrap();
    let message = status["status"]["targets"][0]["message"].to_string();
    assert!(
        message.contains("INC-7, by ") && message.contains(" at 20"),
        "{message}"
    );
    let config_map = off_config_map(&scene.namespace).await.unwrap().unwrap();
    let managers = config_map.metadata.managed_fields.unwrap();
    assert!(
        managers
            .iter()
            .all(|one| one.manager.as_deref() == Some("hedgerow-cli")),
        "{managers:?}"
    );

    person.does("off --yes --reason INC-9").await;
    assert_eq!(
        document(&scene.namespace, "b", KEY).await.unwrap()["reason"],
        "Stopped"
    );
    let beside = person.does("off b").await;
    assert!(
        beside.contains("stopped already") && beside.contains("INC-9"),
        "{beside}"
    );
    let refused = person.fails("on a", 1).await;
    assert!(
        refused.contains("stopped as a whole (INC-9") && refused.contains("Nothing was changed"),
        "{refused}"
    );

    let lifted = person.does("on --yes").await;
    assert!(
        lifted.contains("/a stays stopped by name") && lifted.contains("/b stays stopped by name"),
        "{lifted}"
    );
    person.does("on b").await;
    says(&scene.namespace, "b", "Tuned").await;
    assert_eq!(
        document(&scene.namespace, "a", KEY).await.unwrap()["reason"],
        "Stopped"
    );
    person.does("on a").await;
    says(&scene.namespace, "a", "Tuned").await;
    assert!(off_config_map(&scene.namespace).await.unwrap().is_none());

    scene
        .namespace
        .kubectl(&["annotate", "hp", "a", "hedgerow.dev/off=drill"])
        .await
        .unwrap();
    let refused = person.fails("on a", 1).await;
    assert!(
        refused.contains("annotation hedgerow.dev/off (drill)"),
        "{refused}"
    );
}

#[tokio::test]
async fn everything_is_stopped_from_the_operators_namespace() {
    let scene = Scene::start("plugin-all").await;
    let person = Person::of(&scene).await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    // Not waited for: other tests' policies are of other operators.
    let stopped = person.types_of_all("off --all --wait=false --reason INC-1").await;
    assert!(
        stopped.success && stopped.stdout.contains("everything is stopped"),
        "{stopped:?}"
    );
    scene.reason("Stopped").await;
    let refused = person.fails("on kb", 1).await;
    assert!(
        refused.contains("everything is stopped") && refused.contains("INC-1"),
        "{refused}"
    );
    let home = Person {
        namespace: person.home.clone(),
        ..Person::of(&scene).await
    };
    let refused = home.fails("off --yes", 2).await;
    assert!(refused.contains("say --all"), "{refused}");
    let lifted = person.types_of_all("on --all").await;
    assert!(lifted.success, "{lifted:?}");
    scene.reason("Tuned").await;
}

#[tokio::test]
async fn of_people_who_stop_at_once_none_is_lost() {
    let namespace = shared::namespace("plugin-race").await;
    let person = Person::new(&namespace, "nowhere").await;
    let names: Vec<String> = (0..6).map(|number| format!("p{number}")).collect();
    for name in &names {
        namespace.apply(&named(name).to_string()).await.unwrap();
    }
    let listed = async || -> Result<Vec<String>> {
        let config_map = off_config_map(&namespace).await?.context("there is none")?;
        let policies = config_map.data.unwrap_or_default().remove("policies");
        Ok(policies
            .context("it stops all")?
            .lines()
            .map(str::to_owned)
            .collect())
    };
    let typed: Vec<String> = names
        .iter()
        .map(|name| format!("off {name} --wait=false"))
        .collect();
    join_all(typed.iter().map(|words| person.does(words))).await;
    let mine = |name: &String| format!("{}/{name}", namespace.name());
    assert_eq!(
        listed().await.unwrap(),
        names.iter().map(mine).collect::<Vec<_>>()
    );

    let typed: Vec<String> = names[1..].iter().map(|name| format!("on {name}")).collect();
    join_all(typed.iter().map(|words| person.does(words))).await;
    assert_eq!(listed().await.unwrap(), [mine(&names[0])]);
}

#[tokio::test]
async fn who_waits_for_an_operator_that_is_gone_is_told() {
    let mut scene = Scene::start("plugin-gone").await;
    let person = Person::of(&scene).await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    scene.operator.kill().unwrap();
    let told = person.fails("off kb --timeout 2", 1).await;
    assert!(
        told.contains("the stop is ordered, but 1 of 1 policies are not known to be off after 2 s"),
        "{told}"
    );
    scene.operator.start().await.unwrap();
    scene.reason("Stopped").await;
}

#[tokio::test]
async fn a_plan_is_shown_as_a_difference() {
    let scene = Scene::start("plugin-plan").await;
    let person = Person::of(&scene).await;
    let file = scratch("plan").unwrap().join("policy.yaml");
    std::fs::write(&file, policy("kb").to_string()).unwrap();
    let words = format!(
        "plan -f {} --prometheus {}",
        file.display(),
        scene.prometheus.url()
    );
    let new = person.types(&words).await;
    assert!(
        new.code == Some(1) && new.stdout.contains("shard-read.json: is published anew"),
        "{new:?}"
    );
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    let changed = with(policy("kb"), "/spec/targets/0/budget", json!({ "percent": "2" }));
    std::fs::write(&file, changed.to_string()).unwrap();
    let changed = person.types(&words).await;
    assert!(
        changed.stdout.contains("--- published\n+++ planned\n"),
        "{changed:?}"
    );
    assert!(
        changed.stdout.contains("\n-    \"percent\": 10") && changed.stdout.contains("\n+    \"percent\": 2"),
        "{changed:?}"
    );
    assert!(!changed.stdout.contains("\n-  \"revision\""), "{changed:?}");
}

#[tokio::test]
async fn a_plan_is_made_by_the_operator_from_its_own_sources_and_within_its_ceilings() {
    let ceilings = json!({ "maxBudgetPercent": "5" });
    let scene = Scene::with_operator("plugin-plan-asked", |operator| operator.ceilings(ceilings)).await;
    let person = Person::of(&scene).await;
    let file = scratch("plan").unwrap().join("policy.yaml");
    std::fs::write(&file, policy("kb").to_string()).unwrap();
    let words = format!(
        "plan -f {} --operator-url {}",
        file.display(),
        scene.operator.explain_url()
    );
    eventually(
        "the plan is tuned, by no more than the source allows",
        SOON,
        async || {
            let output = person.types(&format!("{words} -o json")).await;
            ensure!(output.code == Some(1), "{output:?}");
            let told: Value = serde_json::from_str(&output.stdout)?;
            let target = &told["plan"]["targets"][0];
            ensure!(
                target["reason"] == "Tuned" && target["budgetPercent"] == 5.0,
                "{target}"
            );
            ensure!(told["documents"][0]["change"] == "new", "{told}");
            Ok(())
        },
    )
    .await
    .unwrap();

    let misspelt = with(policy("kb"), "/spec/source", json!("another"));
    std::fs::write(&file, misspelt.to_string()).unwrap();
    let told = person.fails(&words, 2).await;
    assert!(told.contains("there is no source \"another\""), "{told}");

    let nobody = free_port().unwrap();
    let elsewhere = format!(
        "plan -f {} --operator-url http://127.0.0.1:{nobody}",
        file.display()
    );
    let told = person.fails(&elsewhere, 3).await;
    assert!(told.contains("--prometheus URL or --config FILE"), "{told}");
}

#[tokio::test]
async fn the_doctor_finds_what_is_wrong_and_says_what_to_do() {
    let scene = Scene::start("plugin-doctor").await;
    let person = Person::of(&scene).await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    told(&person, "Tuned").await;
    // The leader is no pod here, whose account would be asked for.
    let (_, account) = scene.operator.user().rsplit_once(':').unwrap();
    let doctor = format!("doctor --service-account {account}");
    let well = person.does(&doctor).await;
    for about in [
        "ok       CRD: ",
        "ok       operator: ",
        "ok       rights: ",
        "ok       policy ",
        "ok       stops: ",
    ] {
        assert!(well.contains(about), "{about}: {well}");
    }

    let absent = with(
        named("absent"),
        "/spec/targets/0/latency/metric",
        json!("no_such_seconds"),
    );
    scene.apply(&absent).await;
    let account = json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": "default" } });
    scene.namespace.apply(&account.to_string()).await.unwrap();
    let pod: Pod = serde_json::from_value(json!({
        "metadata": { "name": "front" },
        "spec": {
            "automountServiceAccountToken": false,
            "volumes": [{ "name": "hedging", "configMap": { "name": "kb-hedging" } }],
            "containers": [{ "name": "c", "image": "none",
                "volumeMounts": [{ "name": "hedging", "mountPath": "/etc/h.json", "subPath": KEY }] }],
        },
    }))
    .unwrap();
    scene
        .namespace
        .api::<Pod>()
        .create(&PostParams::default(), &pod)
        .await
        .unwrap();
    eventually("the doctor finds both", SOON, async || {
        let ill = person.types(&doctor).await;
        ensure!(ill.code == Some(1), "{ill:?}");
        let said = &ill.stdout;
        ensure!(
            said.contains("MetricNotFound") && said.contains("mounts ConfigMap kb-hedging by subPath"),
            "{said}"
        );
        Ok(())
    })
    .await
    .unwrap();
}
