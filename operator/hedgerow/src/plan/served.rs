//! Plans for people who ask the operator: by its own sources, as its administrator declared them.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::input::{self, Given, Text};
use super::{Plan, decide};
use crate::exit::Failure;
use crate::settings::{Settings, Sources};

/// What is sent, in bytes, at most: half a dozen of the largest policies there can be.
pub const MOST_BYTES: usize = 1024 * 1024;

/// What is sent, as its sender must say. A website cannot say so without asking first, which is not answered.
pub const YAML: &str = "application/yaml";
const JSON: &str = "application/json";

/// Targets of one plan: four of the largest policies.
const MOST_TARGETS: usize = 64;

/// A plan is given up after this.
const PLANNED_WITHIN: Duration = Duration::from_secs(30);

/// Makes plans, one at a time and one request to a source at a time, while this replica leads. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Planner {
    sources: Arc<Sources>,
    propagation: Duration,
    /// The namespaces that are looked after; empty: all.
    namespaces: Arc<[String]>,
    leads: watch::Receiver<bool>,
    turn: Arc<Semaphore>,
}

/// What may be wished for beside the policies; anything else is refused rather than passed over.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wishes {
    /// The namespace of what does not say its own.
    #[serde(default = "default_namespace")]
    namespace: String,
}

fn default_namespace() -> String {
    "default".to_owned()
}

impl Planner {
    /// A planner of the replica that `leads` or not.
    pub fn new(settings: &Settings, leads: watch::Receiver<bool>) -> Self {
        Self {
            sources: Arc::new(settings.sources.clone().one_at_a_time()),
            propagation: settings.propagation,
            namespaces: settings.watch_namespaces.clone().into(),
            leads,
            turn: Arc::new(Semaphore::new(1)),
        }
    }

    async fn plan(&self, text: String, namespace: &str) -> Result<Plan, (StatusCode, String)> {
        if !*self.leads.borrow() {
            let why = "this replica does not lead; ask the one that does".to_owned();
            return Err((StatusCode::SERVICE_UNAVAILABLE, why));
        }
        let Ok(_turn) = self.turn.try_acquire() else {
            let why = "another plan is being made; ask again in a moment".to_owned();
            return Err((StatusCode::TOO_MANY_REQUESTS, why));
        };
        let invalid = |why: Failure| (StatusCode::UNPROCESSABLE_ENTITY, why.to_string());
        let given = self.given(text, namespace).map_err(invalid)?;
        let planned = timeout(PLANNED_WITHIN, decide(given, &self.sources, self.propagation));
        planned
            .await
            .map_err(|_| {
                let seconds = PLANNED_WITHIN.as_secs();
                let why =
                    format!("the sources did not answer within {seconds} s; plan fewer targets at once");
                (StatusCode::GATEWAY_TIMEOUT, why)
            })?
            .map_err(invalid)
    }

    /// The policies in a text that may be planned here.
    fn given(&self, content: String, namespace: &str) -> Result<Given, Failure> {
        let name = "the request".to_owned();
        let given = input::parse(&[Text { name, content }], namespace).map_err(Failure::invalid)?;
        let targets: usize = given
            .policies
            .iter()
            .map(|policy| policy.spec.targets.len())
            .sum();
        if targets > MOST_TARGETS {
            return Err(Failure::invalid(format!(
                "{targets} targets are too many to plan at once; send {MOST_TARGETS} at most"
            )));
        }
        let foreign = given
            .policies
            .iter()
            .find(|policy| !self.namespaces.is_empty() && !self.namespaces.contains(&policy.namespace));
        match foreign {
            Some(policy) => Err(Failure::invalid(format!(
                "{}: this operator does not look after namespace {}",
                policy.origin, policy.namespace
            ))),
            None => Ok(given),
        }
    }
}

/// `POST /plan?namespace=NAME`: policies as YAML or JSON in, what `plan -o json` prints out.
pub(crate) async fn serve(
    State(planner): State<Planner>,
    Query(wishes): Query<Wishes>,
    headers: HeaderMap,
    text: String,
) -> Response {
    if !is_told_to_be_policies(&headers) {
        let why = format!("send policies with the header content-type: {YAML} or {JSON}\n");
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, why).into_response();
    }
    match planner.plan(text, &wishes.namespace).await {
        Ok(plan) => axum::Json(plan).into_response(),
        Err((status, why)) => (status, format!("{why}\n")).into_response(),
    }
}

fn is_told_to_be_policies(headers: &HeaderMap) -> bool {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok());
    let kind = kind
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim();
    [YAML, JSON].iter().any(|known| kind.eq_ignore_ascii_case(known))
}
