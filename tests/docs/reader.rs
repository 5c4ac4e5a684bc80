//! Somebody who has a cluster, Helm and Prometheus, and does what a page says.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use hedgerow_tests::{
    Build, Cluster, Output, Part, Prometheus, eventually, hedgerow, kubectl_hedge, part, repository, scratch,
};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::elsewhere::{Place, place};
use crate::nodes::{Nodes, Places};
use crate::output::difference;
use crate::pages::{Step, steps, text};
use crate::service::Service;

/// Longer than anything takes that a page has its reader wait for, on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(240);

/// What follows in a policy's block `saturation`. Pages tell of minutes, which are the defaults (a test says so); here the same
/// steps take seconds, and each is still long enough to be looked at.
const TIMES: (&str, &str) = (
    "\n    saturation:\n",
    "\n    saturation:\n      cooldown: 5s\n      rampStep: 20s\n",
);

/// Commands that only look: a reader looks again until it is as the page shows.
const LOOKS: [&str; 9] = [
    "kubectl get ",
    "kubectl describe ",
    "kubectl explain ",
    "kubectl hedge status",
    "kubectl hedge explain",
    "kubectl hedge history",
    "kubectl hedge doctor",
    "hedgerow plan ",
    "curl ",
];

pub(crate) struct Reader {
    cluster: Arc<Cluster>,
    /// A folder that looks like a clone of the repository.
    clone: PathBuf,
    places: Places,
    _nodes: Nodes,
    _prometheus: Prometheus,
    _service: Service,
}

impl Reader {
    /// With a new cluster, and a Prometheus that scrapes the service of the README's policy.
    pub(crate) async fn new() -> Self {
        let cluster = Arc::new(Cluster::start().await.unwrap().with_controllers().unwrap());
        let service = Service::start().await;
        let prometheus = service.scraped().await;
        let (nodes, places) = Nodes::of(Arc::clone(&cluster), prometheus.url());
        let reader = Self {
            clone: clone(),
            cluster,
            places,
            _nodes: nodes,
            _prometheus: prometheus,
            _service: service,
        };
        reader.owns_things().await;
        reader
    }

    /// What is there before a page begins.
    async fn owns_things(&self) {
        let manifest = include_str!("owned.yaml");
        self.cluster.kubectl().unwrap().apply(manifest).await.unwrap();
    }

    /// Does what the text of a page says, from its top to its end.
    pub(crate) async fn follows(&self, page: &str, text: &str) {
        for step in steps(text) {
            match step {
                Step::Save { file, text } => {
                    std::fs::write(self.clone.join(file), text.replace(TIMES.0, TIMES.1)).unwrap();
                }
                Step::Type { command, shown } => {
                    println!("{page}: {command}");
                    let done = self.types(&command, &shown).await;
                    done.unwrap_or_else(|error| panic!("{page}: {command}{error:#}"));
                }
            }
        }
    }

    async fn types(&self, command: &str, shown: &[String]) -> Result<()> {
        match place(command.trim_end()) {
            Some(Place::Elsewhere { .. }) => return Ok(()),
            Some(Place::UpToTheNode { says }) => {
                let said = self.shell(command).await?;
                ensure!(
                    !said.success && said.stderr.contains(says),
                    "it does not say {says}: {said:?}"
                );
                return Ok(());
            }
            None => {}
        }
        let once = async || {
            let said = self.shell(command).await?;
            ensure!(said.success, "{}{}", said.stdout, said.stderr);
            let difference = (!shown.is_empty())
                .then(|| difference(shown, &said.stdout))
                .flatten();
            ensure!(
                difference.is_none(),
                "{}\n{}",
                difference.unwrap_or_default(),
                said.stdout
            );
            Ok(())
        };
        if LOOKS.iter().any(|look| command.starts_with(look)) {
            eventually("it is as the page shows", PATIENCE, once).await?;
        } else {
            once().await?;
        }
        if command.contains("helm install") || command.contains("kubectl apply") {
            self.waits_for_the_new_kind().await?;
        }
        Ok(())
    }

    /// A person is slower than discovery, which follows a new CRD by a second or two.
    async fn waits_for_the_new_kind(&self) -> Result<()> {
        self.cluster.kubectl()?.knows_policies(PATIENCE).await
    }

    /// Types it into a shell that remembers what was exported before.
    async fn shell(&self, command: &str) -> Result<Output> {
        let mut typed = command.to_owned();
        for (there, here) in &self.places {
            typed = typed.replace(there, here);
        }
        let memory = self.clone.join(".exported");
        let script = format!(
            "[ ! -e {memory} ] || . {memory}\n{typed}\nexport -p > {memory}\n",
            memory = memory.display()
        );
        let path = format!("{}:{}", self.clone.join("bin").display(), std::env::var("PATH")?);
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(&self.clone)
            .env_clear()
            .env("PATH", path)
            .env("HOME", &self.clone)
            .env("KUBECONFIG", self.cluster.admin().kubeconfig())
            .kill_on_drop(true)
            .output()
            .await?;
        Ok(output.into())
    }
}

/// A clone with the programs that the reader has built, and kubectl and helm to be found.
fn clone() -> PathBuf {
    let folder = scratch("clone").unwrap();
    let link = |program: &Path, name: &str| {
        let link = folder.join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(program, link).unwrap();
    };
    for name in ["charts", "crds", "examples"] {
        link(&repository().join(name), name);
    }
    link(&part(Part::Kubectl).unwrap(), "bin/kubectl");
    link(&part(Part::Helm4).unwrap(), "bin/helm");
    link(&part(Part::Promtool).unwrap(), "bin/promtool");
    link(&hedgerow(Build::Debug).unwrap(), "target/release/hedgerow");
    link(&kubectl_hedge().unwrap(), "target/release/kubectl-hedge");
    folder
}

#[test]
fn what_a_policy_waits_for_by_default_is_what_pages_tell_of() {
    let crd = text("crds/hedgepolicies.hedgerow.dev.yaml");
    let crd: Value = serde_saphyr::from_str(&crd).unwrap();
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let saturation = format!("{spec}/targets/items/properties/saturation/properties");
    let default = |field: &str| crd.pointer(&format!("{saturation}/{field}/default")).unwrap();
    assert_eq!(
        (default("cooldown"), default("rampStep")),
        (&json!("2m"), &json!("2m"))
    );
    for page in ["README.md", "docs/quick-start.md"] {
        let page = text(page);
        let policies = page.matches("kind: HedgePolicy").count();
        assert_eq!(page.matches(TIMES.0).count(), policies, "each has its times");
        assert!(page.contains("two minutes each"), "the ramp is told of");
    }
}
