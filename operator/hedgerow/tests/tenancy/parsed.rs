//! What a query means to Prometheus.

use std::time::Duration;

use hedgerow_tests::{Prometheus, PrometheusOptions, http_client};
use serde::Deserialize;
use serde_json::Value;

/// A Prometheus that parses. It scrapes nothing.
pub(crate) struct Parser {
    prometheus: Prometheus,
    http: reqwest::Client,
}

/// A condition on one label.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Matcher {
    name: String,
    #[serde(rename = "type")]
    operator: String,
    value: String,
}

impl Matcher {
    /// Whether it lets pass the series alone whose label has this very value.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        (self.name.as_str(), self.operator.as_str(), self.value.as_str()) == (name, "=", value)
    }
}

impl Parser {
    pub(crate) async fn start() -> Self {
        Self {
            prometheus: PrometheusOptions::new().start().await.unwrap(),
            http: http_client(Duration::from_secs(20)).unwrap(),
        }
    }

    /// The matchers of each selector in a query.
    pub(crate) async fn selectors(&self, query: &str) -> Vec<Vec<Matcher>> {
        let selectors = self.try_selectors(query).await;
        selectors.unwrap_or_else(|| panic!("Prometheus does not parse {query}"))
    }

    /// The same; `None` when it is no query.
    pub(crate) async fn try_selectors(&self, query: &str) -> Option<Vec<Vec<Matcher>>> {
        let url = format!("{}/api/v1/parse_query", self.prometheus.url());
        let answer = self
            .http
            .post(url)
            .form(&[("query", query)])
            .send()
            .await
            .unwrap();
        let answer: Value = answer.json().await.unwrap();
        if answer["status"] != "success" {
            assert_eq!(answer["errorType"], "bad_data", "{answer}");
            return None;
        }
        let mut found = Vec::new();
        collect(&answer["data"], &mut found);
        Some(found)
    }
}

/// Whatever has matchers is a selector, wherever in the tree it is.
fn collect(node: &Value, found: &mut Vec<Vec<Matcher>>) {
    match node {
        Value::Object(fields) => {
            let kind = fields.get("type").and_then(Value::as_str);
            if matches!(kind, Some("vectorSelector" | "matrixSelector")) {
                found.push(Vec::deserialize(&fields["matchers"]).unwrap());
            }
            fields.values().for_each(|field| collect(field, found));
        }
        Value::Array(nodes) => nodes.iter().for_each(|node| collect(node, found)),
        _ => {}
    }
}
