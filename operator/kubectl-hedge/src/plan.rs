//! `kubectl hedge plan`: what policies in files would publish, as a difference to what is published.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use hedgerow::exit::{DECIDED, Failure, INCOMPLETE, Outcome, UNREACHABLE};
use hedgerow::plan::{Document, Plan, Report, plan, to_send};
use hedgerow::{cli, print};
use hedgerow_api::Format;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use crate::cli::PlanArgs;
use crate::leader;
use crate::output;
use crate::session::{Session, failure};

/// What `-o json` prints.
#[derive(Serialize)]
struct Told<'a> {
    plan: &'a Report,
    documents: Vec<Compared>,
}

/// A document beside the one that is published.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Compared {
    namespace: String,
    config_map: String,
    key: String,
    change: Change,
    /// As a unified diff; `null` without a change.
    diff: Option<String>,
    /// Why it cannot be rendered.
    message: Option<String>,
}

/// What would become of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Change {
    None,
    New,
    Changed,
    Unknown,
}

/// Runs it.
pub(crate) async fn run(session: &Session, args: &PlanArgs) -> Outcome {
    let planned = planned(session, args).await?;
    let report = &planned.report;
    let documents = compare_all(session, report).await?;
    let is_as_published = documents.iter().all(|document| document.change == Change::None);
    let told = Told {
        plan: report,
        documents,
    };
    match args.output {
        Some(format) => output::machine(format, &told)?,
        None => print::stdout(&render(&told))?,
    };
    planned.tell_failing();
    output::ended(
        match (
            planned.failing.is_empty(),
            report.has_unknown() || !is_as_published,
        ) {
            (false, _) => UNREACHABLE,
            (true, true) => INCOMPLETE,
            (true, false) => DECIDED,
        },
    )
}

/// Plans here where it is said what to read from, and asks the operator where not.
async fn planned(session: &Session, args: &PlanArgs) -> Result<Plan, Failure> {
    if args.prometheus.is_none() && args.config.is_none() {
        let text = to_send(&args.files, args.recursive, &session.namespace)?;
        let (plan, from) = leader::plan(session, &args.leader, text).await?;
        eprintln!("note: planned by {from}");
        return Ok(plan);
    }
    let asked = cli::PlanArgs {
        files: args.files.clone(),
        recursive: args.recursive,
        prometheus: args.prometheus.clone(),
        config: args.config.clone(),
        namespace: session.namespace.clone(),
        output: None,
    };
    plan(&asked).await
}

async fn compare_all(session: &Session, report: &Report) -> Result<Vec<Compared>, Failure> {
    let mut live: BTreeMap<(String, String), Option<ConfigMap>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    let mut compared = Vec::new();
    for target in &report.targets {
        let namespace = target.policy.split('/').next().unwrap_or_default();
        for document in &target.documents {
            // A document of several targets is told under each.
            if !seen.insert((
                namespace.to_owned(),
                document.config_map.clone(),
                document.key.clone(),
            )) {
                continue;
            }
            let name = (namespace.to_owned(), document.config_map.clone());
            if !live.contains_key(&name) {
                let api: Api<ConfigMap> = Api::namespaced(session.client.clone(), namespace);
                let found = api.get_opt(&document.config_map).await;
                let found =
                    found.map_err(|why| failure(&format!("ConfigMap {namespace}/{}", name.1), &why))?;
                live.insert(name.clone(), found);
            }
            let data = live
                .get(&name)
                .and_then(Option::as_ref)
                .and_then(|live| live.data.as_ref());
            let published = data.and_then(|data| data.get(&document.key));
            compared.push(compare(namespace, document, published.map(String::as_str)));
        }
    }
    Ok(compared)
}

fn compare(namespace: &str, document: &Document, published: Option<&str>) -> Compared {
    let is_native = document.format == Format::Hedgerow.as_str();
    let shown = |text: &str| {
        if is_native {
            without_times(text)
        } else {
            text.to_owned()
        }
    };
    let (change, diff) = match (&document.content, published.map(shown)) {
        (None, _) => (Change::Unknown, None),
        (Some(planned), None) => (Change::New, Some(difference("", &shown(planned)))),
        (Some(planned), Some(published)) => {
            let planned = shown(planned);
            if planned == published {
                (Change::None, None)
            } else {
                (Change::Changed, Some(difference(&published, &planned)))
            }
        }
    };
    Compared {
        namespace: namespace.to_owned(),
        config_map: document.config_map.clone(),
        key: document.key.clone(),
        change,
        diff,
        message: document.message.clone(),
    }
}

/// A native document without what each write sets anew. One that is no JSON is shown as it is.
fn without_times(text: &str) -> String {
    let Ok(mut document) = serde_json::from_str::<Value>(text) else {
        return text.to_owned();
    };
    if let Some(fields) = document.as_object_mut() {
        for field in ["revision", "issuedAt", "validUntil", "policyUID"] {
            fields.remove(field);
        }
    }
    serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
}

fn difference(published: &str, planned: &str) -> String {
    let diff = TextDiff::from_lines(published, planned);
    diff.unified_diff().header("published", "planned").to_string()
}

fn render(told: &Told<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for target in &told.plan.targets {
        let _ = writeln!(
            text,
            "{} {}: {}: {}",
            target.policy, target.target, target.reason, target.message
        );
    }
    for document in &told.documents {
        let name = format!("{}/{} {}", document.namespace, document.config_map, document.key);
        let change = match document.change {
            Change::None => "as it is published",
            Change::New => "is published anew",
            Change::Changed => "changes",
            Change::Unknown => "cannot be rendered",
        };
        let _ = writeln!(text, "\n{name}: {change}");
        if let Some(message) = &document.message {
            let _ = writeln!(text, "problem: {message}");
        }
        text.push_str(document.diff.as_deref().unwrap_or_default());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native(content: &str) -> Document {
        Document {
            config_map: "kb-hedging".to_owned(),
            key: "a.json".to_owned(),
            format: Format::Hedgerow.as_str().into(),
            content: Some(content.to_owned()),
            message: None,
        }
    }

    #[test]
    fn what_each_write_sets_anew_is_no_change() {
        let planned = native(r#"{"delayMs":512,"revision":1,"issuedAt":"a"}"#);
        let same = compare(
            "shop",
            &planned,
            Some(r#"{"delayMs":512,"revision":9,"issuedAt":"b","policyUID":"u"}"#),
        );
        assert_eq!((same.change, same.diff), (Change::None, None));
    }

    #[test]
    fn a_change_is_shown_line_by_line() {
        let other = compare("shop", &native(r#"{"delayMs":512}"#), Some(r#"{"delayMs":640}"#));
        assert_eq!(other.change, Change::Changed);
        assert_eq!(
            other.diff.as_deref(),
            Some(
                "--- published\n+++ planned\n@@ -1,3 +1,3 @@\n {\n-  \"delayMs\": 640\n+  \"delayMs\": 512\n }\n"
            )
        );
        let new = compare("shop", &native(r#"{"delayMs":512}"#), None);
        assert_eq!(new.change, Change::New);
    }

    #[test]
    fn what_cannot_be_rendered_is_no_change_and_not_nothing() {
        let document = Document {
            content: None,
            message: Some("no base".to_owned()),
            ..native("")
        };
        assert_eq!(compare("shop", &document, Some("x")).change, Change::Unknown);
    }
}
