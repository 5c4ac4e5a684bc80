//! The policies in files, and the bases of their documents. An error names the file, the document and the field.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};

use hedgerow_api::HedgePolicySpec;
use serde_json::Value;

use super::bases::Bases;
use super::files;

/// A policy as it is written in a file.
#[derive(Debug)]
pub(super) struct WrittenPolicy {
    /// Where it stands, for messages: `policy.yaml, document 2, HedgePolicy helpdesk/kb-search`.
    pub(super) origin: String,
    pub(super) namespace: String,
    pub(super) name: String,
    /// Empty where no API server has seen it.
    pub(super) uid: String,
    pub(super) spec: HedgePolicySpec,
}

/// Everything that is wrong with the files.
#[derive(Debug)]
pub(super) struct Faults(Vec<String>);

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("\nerror: "))
    }
}

/// What is in the files.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) policies: Vec<WrittenPolicy>,
    pub(super) bases: Bases,
}

/// A text, and what it is called in messages.
#[derive(Debug)]
pub(super) struct Text {
    pub(super) name: String,
    pub(super) content: String,
}

/// The texts of `files`; `-` is standard input, and a folder stands for [the files in it](files::in_folder).
pub(super) fn texts(files: &[PathBuf], recursive: bool) -> Result<Vec<Text>, Faults> {
    let (mut texts, mut faults) = (Vec::new(), Vec::new());
    let mut read = |file: &Path| match content(file) {
        Ok(content) => texts.push(Text {
            name: name(file),
            content,
        }),
        Err(why) => faults.push(why),
    };
    let mut empty = Vec::new();
    for file in files {
        if !file.is_dir() {
            read(file);
            continue;
        }
        match files::in_folder(file, recursive) {
            Ok(files) => files.iter().for_each(|file| read(file)),
            Err(why) => empty.push(why),
        }
    }
    faults.append(&mut empty);
    if faults.is_empty() {
        Ok(texts)
    } else {
        Err(Faults(faults))
    }
}

/// What is in texts. What has no namespace is in `namespace`.
pub(super) fn parse(texts: &[Text], namespace: &str) -> Result<Given, Faults> {
    let mut found = Found::default();
    for text in texts {
        found.text(text, namespace);
    }
    found.finish()
}

fn name(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".to_owned()
    } else {
        file.display().to_string()
    }
}

fn content(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let read = if file == Path::new("-") {
        std::io::stdin().lock().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(file).map(|content| text = content)
    };
    read.map_err(|why| format!("cannot read {}: {why}", name(file)))?;
    Ok(text)
}

#[derive(Default)]
struct Found {
    policies: Vec<WrittenPolicy>,
    bases: Bases,
    names: BTreeSet<(String, String)>,
    faults: Vec<String>,
}

impl Found {
    fn text(&mut self, text: &Text, namespace: &str) {
        let mut reader = text.content.as_bytes();
        for (at, document) in serde_saphyr::read::<_, Value>(&mut reader).enumerate() {
            let origin = format!("{}, document {}", text.name, at + 1);
            match document {
                Ok(document) => self.document(&origin, &document, namespace),
                Err(why) => self.faults.push(format!("{origin}: is not YAML: {why}")),
            }
        }
    }

    fn document(&mut self, origin: &str, document: &Value, namespace: &str) {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
        let (api_version, kind) = (
            text("/apiVersion").unwrap_or_default(),
            text("/kind").unwrap_or_default(),
        );
        match (api_version.split_once('/'), kind) {
            (Some(("hedgerow.dev", "v1alpha1")), "HedgePolicy") => self.policy(origin, document, namespace),
            (Some(("hedgerow.dev", _)), _) => self.faults.push(format!(
                "{origin}: {api_version} {kind:?} is not known; a policy is hedgerow.dev/v1alpha1 HedgePolicy"
            )),
            (None, "ConfigMap") => self.bases.note(document, namespace),
            (_, "List" | "HedgePolicyList") => {
                let items = document.get("items").and_then(Value::as_array);
                for (at, item) in items.into_iter().flatten().enumerate() {
                    self.document(&format!("{origin}, item {}", at + 1), item, namespace);
                }
            }
            (_, "") if !document.is_null() => self.faults.push(format!(
                "{origin}: has no apiVersion and kind; a policy begins with apiVersion: hedgerow.dev/v1alpha1 and kind: \
                 HedgePolicy"
            )),
            // Files hold what belongs together; the other objects are not ours to judge.
            _ => {}
        }
    }

    fn policy(&mut self, origin: &str, document: &Value, namespace: &str) {
        let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
        let namespace = text("/metadata/namespace").unwrap_or(namespace).to_owned();
        let Some(name) = text("/metadata/name")
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
        else {
            self.faults.push(format!("{origin}: metadata.name: must be set"));
            return;
        };
        let origin = format!("{origin}, HedgePolicy {namespace}/{name}");
        if !self.names.insert((namespace.clone(), name.clone())) {
            self.faults
                .push(format!("{origin}: is given twice; remove one of the two"));
            return;
        }
        match hedgerow_api::decode_spec(document.get("spec").unwrap_or(&Value::Null)) {
            Ok(spec) => self.policies.push(WrittenPolicy {
                uid: text("/metadata/uid").unwrap_or_default().to_owned(),
                origin,
                namespace,
                name,
                spec,
            }),
            Err(errors) => self
                .faults
                .extend(errors.into_iter().map(|error| format!("{origin}: {error}"))),
        }
    }

    fn finish(self) -> Result<Given, Faults> {
        if !self.faults.is_empty() {
            return Err(Faults(self.faults));
        }
        if self.policies.is_empty() {
            return Err(Faults(vec!["no HedgePolicy in the files given".to_owned()]));
        }
        Ok(Given {
            policies: self.policies,
            bases: self.bases,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
apiVersion: hedgerow.dev/v1alpha1
kind: HedgePolicy
metadata: { name: kb-search }
spec:
  targets:
  - name: shard-read
    idempotent: true
    latency: { metric: shard_read_duration_seconds, measures: LogicalCall }
  publish:
  - { configMap: kb-hedging, key: shard-read.json, targets: [{ name: shard-read }] }
"#;

    fn found(text: &str) -> Result<Vec<WrittenPolicy>, Faults> {
        let text = Text {
            name: "p.yaml".to_owned(),
            content: text.to_owned(),
        };
        parse(&[text], "default").map(|given| given.policies)
    }

    fn faults(text: &str) -> String {
        found(text).unwrap_err().to_string()
    }

    #[test]
    fn a_policy_without_a_namespace_is_in_the_one_given() {
        let policies = found(POLICY).unwrap();
        assert_eq!(
            (policies[0].namespace.as_str(), policies[0].name.as_str()),
            ("default", "kb-search")
        );
    }

    #[test]
    fn the_document_of_an_error_is_named() {
        let second = POLICY
            .replace("idempotent: true", "idempotent: false")
            .replace("kb-search", "other");
        let faults = faults(&format!("{POLICY}---{second}"));
        assert!(
            faults.starts_with(
                "p.yaml, document 2, HedgePolicy default/other: spec.targets[0].idempotent: must be true"
            ),
            "{faults}"
        );
    }

    #[test]
    fn a_number_that_must_be_quoted_says_so() {
        let signals =
            "idempotent: true\n    saturation: { signals: [{ name: queue, metric: depth, offAbove: 50 }] }";
        let faults = faults(&POLICY.replace("idempotent: true", signals));
        assert!(
            faults.contains("offAbove") && faults.ends_with("put it in quotes"),
            "{faults}"
        );
    }

    #[test]
    fn objects_of_others_are_passed_over() {
        let both = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: a }}\n---{POLICY}");
        assert_eq!(found(&both).unwrap().len(), 1);
    }

    #[test]
    fn a_misspelt_kind_of_ours_is_not_passed_over() {
        assert!(faults(&POLICY.replace("kind: HedgePolicy", "kind: HedgePolcy")).contains("HedgePolcy"));
    }

    #[test]
    fn a_list_from_kubectl_is_read() {
        let item = POLICY.trim_start().replace('\n', "\n  ");
        let list = format!("apiVersion: v1\nkind: List\nitems:\n- {item}");
        assert_eq!(found(&list).unwrap().len(), 1);
    }

    #[test]
    fn the_same_policy_twice_is_refused() {
        assert!(
            faults(&format!("{POLICY}---{POLICY}"))
                .contains("document 2, HedgePolicy default/kb-search: is given twice")
        );
    }

    #[test]
    fn what_is_not_yaml_or_not_there_is_said() {
        assert!(faults("a: [").starts_with("p.yaml, document 1: is not YAML"));
        assert_eq!(faults(""), "no HedgePolicy in the files given");
        assert!(faults("spec: {}").contains("has no apiVersion and kind"));
    }
}
