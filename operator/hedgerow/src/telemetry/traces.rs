//! Spans, sent by OTLP over HTTP.

use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;

/// The flag, in errors.
const FLAG: &str = "--otlp-endpoint";
/// Where a collector takes traces, under its base URL.
const PATH: &str = "/v1/traces";
/// One request may take so long.
const TIMEOUT: Duration = Duration::from_secs(10);
/// So long the end waits for the spans that are not sent yet.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(3);

/// What sends the spans to a collector whose base URL this is. It connects to nothing yet.
pub(super) fn provider(endpoint: &str) -> Result<SdkTracerProvider, String> {
    let url = traces_url(endpoint)?;
    let http = reqwest::Client::builder()
        .timeout(TIMEOUT)
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| format!("{FLAG}: no client can be made: {error}"))?;
    let client = OnRuntime {
        http,
        runtime: Handle::current(),
    };
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(url)
        .with_timeout(TIMEOUT)
        .with_http_client(client)
        .build()
        .map_err(|error| format!("{FLAG}: {error}"))?;
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource())
        .build())
}

/// The URL of traces under a collector's base URL.
fn traces_url(endpoint: &str) -> Result<String, String> {
    let url = reqwest::Url::parse(endpoint)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| {
            format!("{FLAG}: {endpoint:?} is not the URL of a collector; for example http://localhost:4318")
        })?;
    Ok(format!("{}{PATH}", url.as_str().trim_end_matches('/')))
}

/// Who we are, unless the environment says it (OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES).
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    match std::env::var_os("OTEL_SERVICE_NAME") {
        Some(_) => resource.build(),
        None => resource.with_service_name("hedgerow").build(),
    }
}

/// Spans are sent from a thread of their own, and HTTP is spoken on the runtime.
#[derive(Debug)]
struct OnRuntime {
    http: reqwest::Client,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for OnRuntime {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let http = self.http.clone();
        self.runtime
            .spawn(async move { HttpClient::send_bytes(&http, request).await })
            .await?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_have_a_place_under_the_base_url() {
        for base in ["http://localhost:4318", "http://localhost:4318/"] {
            assert_eq!(traces_url(base).unwrap(), "http://localhost:4318/v1/traces");
        }
        assert_eq!(
            traces_url("https://otel.example/tenant").unwrap(),
            "https://otel.example/tenant/v1/traces"
        );
    }

    #[test]
    fn what_is_no_url_is_told_with_an_example() {
        for wrong in ["localhost:4318", "collector", "", "ftp://x"] {
            let error = traces_url(wrong).unwrap_err();
            assert!(
                error.starts_with(FLAG) && error.contains("http://localhost:4318"),
                "{error}"
            );
        }
    }
}
