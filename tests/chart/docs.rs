//! Every command of `docs/install.md`, in its order, as a reader would type it.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use hedgerow_tests::{Cluster, Part, part, repository, scratch};

use crate::shared::{established, text};

/// The commands under a heading. Those that want a node are marked, and left out.
fn commands(heading: &str) -> Vec<String> {
    let page = text("docs/install.md");
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    let section = rest.split("\n## ").next().unwrap();
    let mut commands: Vec<String> = Vec::new();
    for block in section.split("```console\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for line in block.lines() {
            match line.strip_prefix("$ ") {
                Some(command) => commands.push(format!("{command}\n")),
                // The rest of a document that the command reads.
                None => *commands.last_mut().unwrap() += &format!("{line}\n"),
            }
        }
    }
    assert!(!commands.is_empty(), "no command under {heading}");
    commands
}

/// A folder that looks like a clone, with kubectl and helm to be found.
fn clone() -> PathBuf {
    let folder = scratch("clone").unwrap();
    for name in ["charts", "crds", "examples"] {
        symlink(repository().join(name), folder.join(name)).unwrap();
    }
    std::fs::create_dir(folder.join("bin")).unwrap();
    symlink(part(Part::Kubectl).unwrap(), folder.join("bin/kubectl")).unwrap();
    symlink(part(Part::Helm4).unwrap(), folder.join("bin/helm")).unwrap();
    folder
}

/// Types what is under these headings into a new cluster.
async fn typed(headings: &[&str]) {
    let cluster = Cluster::start().await.unwrap().with_controllers().unwrap();
    let kubectl = cluster.kubectl().unwrap();
    let clone = clone();
    let path = format!(
        "{}:{}",
        clone.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    for command in headings.iter().flat_map(|heading| commands(heading)) {
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", &command])
            .current_dir(&clone)
            .env("PATH", &path)
            .env("HOME", &clone)
            .env("KUBECONFIG", cluster.admin().kubeconfig())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}{said}");
        // A reader waits for the pods meanwhile.
        if command.starts_with("helm install") {
            established(&kubectl).await;
        }
    }
}

#[tokio::test]
async fn by_helm_to_the_end() {
    typed(&[
        "By Helm",
        "Upgrade and rollback",
        "Uninstall",
        "In some namespaces only",
        "What it may do",
    ])
    .await;
}

#[tokio::test]
async fn without_helm() {
    typed(&["Without Helm"]).await;
}
