//! Structured logs, and traces where they are asked for.

mod traces;

use std::io::IsTerminal;

use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::warn;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, fmt, registry};

use crate::cli::LogFormat;

pub(crate) use hedgerow_signals::TRACES;

/// The variable that says what is logged.
const VARIABLE: &str = "HEDGEROW_LOG";
/// Unset: what people need, without the libraries' chatter.
const DEFAULT: &str = "warn,hedgerow=info,hedgerow_signals=info";

/// What was started, to be [ended](Self::end).
#[derive(Debug)]
#[must_use = "spans that are not sent yet are lost"]
pub struct Telemetry {
    traces: Option<SdkTracerProvider>,
}

/// Starts logging to stderr, so that stdout stays for output; and to trace, when there is an endpoint that takes OTLP over HTTP.
///
/// # Errors
/// What cannot be used, with the remedy.
pub fn start(format: LogFormat, otlp_endpoint: Option<&str>) -> Result<Telemetry, String> {
    let directives = std::env::var(VARIABLE).unwrap_or_else(|_| DEFAULT.to_owned());
    let filter = EnvFilter::try_new(&directives).map_err(|error| {
        format!("{VARIABLE}={directives:?} is not a log filter ({error}); an example: info,hedgerow=debug")
    })?;
    let lines = fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    let lines = match format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_current_span(false).boxed(),
    };
    let traces = otlp_endpoint.map(traces::provider).transpose()?;
    let spans = traces.as_ref().map(|provider| {
        // Our own spans alone: those of the libraries are many, and some are about sending these.
        let ours = Targets::new().with_target(TRACES, LevelFilter::INFO);
        let tracer = provider.tracer("hedgerow");
        tracing_opentelemetry::layer()
            .with_tracer(tracer)
            .with_filter(ours)
    });
    registry()
        .with(lines.with_filter(filter))
        .with(spans)
        .try_init()
        .map_err(|error| error.to_string())?;
    Ok(Telemetry { traces })
}

impl Telemetry {
    /// Sends what is not sent yet, for a moment at most.
    pub async fn end(self) {
        let Some(provider) = self.traces else { return };
        // It blocks.
        let sent = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(traces::LAST_WORDS));
        if let Ok(Err(error)) = sent.await {
            warn!(%error, "the last spans were not sent");
        }
    }
}
