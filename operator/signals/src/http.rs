//! Requests to one source: a pooled client, a deadline, a cap on bodies, no redirects.

use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hedgerow_tuner::UnknownReason;
use prometheus_http_query::{Client, RuleKind};
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, DATE, HeaderName, RETRY_AFTER};
use reqwest::{Url, redirect};
use tokio::time::Instant;

use crate::classify::{Response, http_date_ms};
use crate::credentials::Credentials;
use crate::failure::{Failure, quote};
use crate::{SourceError, SourceSettings};

/// A connection is made within this, whatever a request may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// What is asked.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    /// An instant query.
    Query {
        /// Its text.
        promql: String,
        /// When to evaluate it, in milliseconds since the epoch; the server's now when unsaid.
        at_ms: Option<i64>,
    },
    /// The alerting rules of these names.
    Alerts(Vec<String>),
}

/// The requests of one source.
pub(crate) struct Http {
    base: String,
    loopback: bool,
    made: Mutex<Option<(Credentials, Client)>>,
}

impl std::fmt::Debug for Http {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Http")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl Http {
    /// Checks the URL and that TLS can be spoken; connects to nothing.
    pub(crate) fn new(settings: &SourceSettings) -> Result<Self, SourceError> {
        let refuse = |url: &str, why: String| SourceError::Url {
            name: settings.name.clone(),
            url: url.to_owned(),
            why,
        };
        let url = Url::parse(&settings.url).map_err(|error| refuse(&settings.url, error.to_string()))?;
        if !url.username().is_empty() || url.password().is_some() {
            let bare = format!(
                "{}://{}{}",
                url.scheme(),
                url.host_str().unwrap_or_default(),
                url.path()
            );
            let why = "it holds credentials; give them as the source's authentication, from a file";
            return Err(refuse(&bare, why.to_owned()));
        }
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(refuse(
                &settings.url,
                "it must begin with http:// or https://".to_owned(),
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(refuse(&settings.url, "a base URL has neither ? nor #".to_owned()));
        }
        if rustls::crypto::CryptoProvider::get_default().is_none() {
            return Err(SourceError::NoTlsProvider);
        }
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        Ok(Self {
            loopback: host == "localhost"
                || host
                    .parse()
                    .is_ok_and(|address: std::net::IpAddr| address.is_loopback()),
            base: url.as_str().trim_end_matches('/').to_owned(),
            made: Mutex::new(None),
        })
    }

    /// The client, made anew when a credential file has changed.
    pub(crate) async fn client(&self, settings: &SourceSettings) -> Result<Client, Failure> {
        let credentials = Credentials::read(settings).await?;
        let mut made = self
            .made
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((_, client)) = made.as_ref().filter(|(with, _)| *with == credentials) {
            return Ok(client.clone());
        }
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT.min(settings.timeout))
            .pool_max_idle_per_host(settings.concurrency.max(1))
            .user_agent(concat!("hedgerow/", env!("CARGO_PKG_VERSION")));
        if self.loopback {
            // A proxy from the environment cannot reach our own host.
            builder = builder.no_proxy();
        }
        let client = credentials.apply(settings, builder)?.build().map_err(|error| {
            Failure::new(
                UnknownReason::Unavailable,
                format!("no client can be made for the source: {}", causes(&error)),
            )
        })?;
        let client = Client::from(client, &self.base)
            .map_err(|error| Failure::new(UnknownReason::Unavailable, quote(&error.to_string())))?;
        *made = Some((credentials, client.clone()));
        Ok(client)
    }
}

/// Sends a request and reads its response to the end, within the deadline and the cap.
pub(crate) async fn send(
    client: &Client,
    request: &Request,
    deadline: Instant,
    max_body_bytes: usize,
) -> Result<Response, Failure> {
    tokio::time::timeout_at(deadline, exchange(client, request, deadline, max_body_bytes))
        .await
        .unwrap_or_else(|_| {
            Err(Failure::new(
                UnknownReason::Timeout,
                "the source did not answer in time; see its load, or raise the source's timeout",
            ))
        })
}

async fn exchange(
    client: &Client,
    request: &Request,
    deadline: Instant,
    max_body_bytes: usize,
) -> Result<Response, Failure> {
    let sent = match request {
        Request::Query { promql, at_ms } => {
            let left = deadline.saturating_duration_since(Instant::now()).as_millis();
            let mut query = client
                .query(promql)
                // The server need not go on when nobody waits any more.
                .timeout(i64::try_from(left).unwrap_or(i64::MAX).max(1))
                // Thanos answers with what it has unless told not to.
                .query("partial_response", "false");
            if let Some(at) = at_ms {
                query = query.query(
                    "time",
                    format!("{}.{:03}", at.div_euclid(1000), at.rem_euclid(1000)),
                );
            }
            query.post_raw().await
        }
        Request::Alerts(names) => {
            let rules = client.rules().kind(RuleKind::Alerting);
            rules.names(names).get_raw().await
        }
    };
    let mut response = sent.map_err(|error| not_sent(&error))?;
    let header = |name: HeaderName| {
        let value = response.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let mut read = Response {
        status: response.status().as_u16(),
        content_type: header(CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase(),
        encoding: header(CONTENT_ENCODING).filter(|encoding| encoding != "identity"),
        retry_after: header(RETRY_AFTER),
        server_ms: header(DATE).as_deref().and_then(http_date_ms),
        body: Vec::new(),
    };
    let too_large = || {
        Failure::new(
            UnknownReason::ResponseTooLarge,
            format!(
                "the answer is larger than {max_body_bytes} bytes; select fewer series, or raise the source's cap on bodies"
            ),
        )
    };
    if response
        .content_length()
        .is_some_and(|length| usize::try_from(length).map_or(true, |l| l > max_body_bytes))
    {
        return Err(too_large());
    }
    while let Some(chunk) = response.chunk().await.map_err(|error| broken_off(&error))? {
        if read.body.len() + chunk.len() > max_body_bytes {
            return Err(too_large());
        }
        read.body.extend_from_slice(&chunk);
    }
    Ok(read)
}

/// Milliseconds since the epoch on our clock.
pub(crate) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}

fn not_sent(error: &prometheus_http_query::Error) -> Failure {
    let prometheus_http_query::Error::Client(error) = error else {
        return Failure::new(UnknownReason::Unavailable, quote(&error.to_string()));
    };
    match error.inner() {
        Some(cause) if cause.is_timeout() => Failure::new(
            UnknownReason::Timeout,
            "the source accepts no connection in time; is it up, and does a network policy let us through?",
        ),
        Some(cause) => Failure::new(
            UnknownReason::Unavailable,
            format!(
                "the source cannot be reached ({}); is it up, and is the URL right?",
                causes(cause)
            ),
        ),
        None => Failure::new(UnknownReason::Unavailable, quote(&error.to_string())),
    }
}

fn broken_off(error: &reqwest::Error) -> Failure {
    Failure::new(
        UnknownReason::Unavailable,
        format!(
            "the connection broke off within the answer ({}); see the source's log",
            causes(error)
        ),
    )
}

/// An error's innermost cause, which names what really happened. The outer ones repeat the URL.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let innermost = std::iter::successors(Some(error), |error| error.source())
        .last()
        .unwrap_or(error);
    quote(&innermost.to_string())
}
