//! The latency histograms that Hedgerow knows.

use super::{KnownHedging, KnownOutcomes, LatencyPreset};
use crate::{Measures, Unit};

/// gRPC statuses by which a call failed without the work being done: they come fast, most of all under overload. Statuses
/// that are an answer of the service (`NOT_FOUND`, `FAILED_PRECONDITION` and the like) and `DEADLINE_EXCEEDED` count.
const GRPC_FAILURES: &[&str] = &[
    "ABORTED",
    "DATA_LOSS",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "UNIMPLEMENTED",
    "UNKNOWN",
];

/// HTTP statuses by which a call failed without the work being done. 404 is an answer, 408 and 504 are timeouts: they count.
const HTTP_FAILURES: &[&str] = &[
    "400", "401", "403", "405", "413", "415", "429", "431", "500", "501", "502", "503",
];

const GRPC_OUTCOMES: Option<KnownOutcomes> = Some(KnownOutcomes {
    label: "grpc_status",
    cancelled: &["CANCELLED"],
    ignored: GRPC_FAILURES,
});

const GRPC_STREAMS: &str = "Streaming calls are in the same histogram and last as long as their stream: name the unary methods in \
     matchLabels, {grpc_method: search.Shard/Read}.";

const ROUTES: &str = "All routes are in one histogram: name one in matchLabels, as {uri: /search}.";

/// Every preset of a latency histogram.
pub static LATENCY: &[LatencyPreset] = &[
    LatencyPreset {
        name: "GrpcClient",
        about: "gRPC's own OpenTelemetry metric of whole calls, in Java, Go, C++ and Python: retries and hedges included",
        metric: "grpc_client_call_duration_seconds",
        unit: Unit::Seconds,
        measures: Measures::LogicalCall,
        at_server: false,
        outcomes: GRPC_OUTCOMES,
        labels: &[],
        timeouts: None,
        hedging: None,
        traps: &[GRPC_STREAMS],
    },
    LatencyPreset {
        name: "GrpcAttempt",
        about: "gRPC's own OpenTelemetry metric of attempts, in Java, Go, C++ and Python",
        metric: "grpc_client_attempt_duration_seconds",
        unit: Unit::Seconds,
        measures: Measures::Attempt,
        at_server: false,
        outcomes: GRPC_OUTCOMES,
        labels: &[],
        timeouts: None,
        hedging: None,
        traps: &[
            GRPC_STREAMS,
            "A call that its own caller cancels has the same status as a hedge that lost: both count as cut short.",
        ],
    },
    LatencyPreset {
        name: "EnvoyUpstream",
        about: "Envoy's time from the end of a request to the end of its response, whichever attempt gave it",
        metric: "envoy_cluster_upstream_rq_time",
        unit: Unit::Milliseconds,
        measures: Measures::LogicalCall,
        at_server: false,
        outcomes: None,
        labels: &[],
        timeouts: Some("envoy_cluster_upstream_rq_timeout"),
        hedging: None,
        traps: &[
            "Requests that time out never enter the histogram: they are read from envoy_cluster_upstream_rq_timeout.",
            "Errors are in it and come fast: watch the 5xx responses beside it.",
            "Its buckets are wide: set histogram_bucket_settings in Envoy's stats_config around the delay.",
        ],
    },
    LatencyPreset {
        name: "Istio",
        about: "the sidecar's time of a request, as the client's side reports it",
        metric: "istio_request_duration_milliseconds",
        unit: Unit::Milliseconds,
        measures: Measures::Attempt,
        at_server: false,
        outcomes: Some(KnownOutcomes {
            label: "response_flags",
            cancelled: &["DC", "DR"],
            ignored: &[
                "NC", "NFCF", "NR", "RL", "RLSE", "UAEX", "UF", "UH", "UO", "URX", "UF,URX",
            ],
        }),
        labels: &[("reporter", "source")],
        timeouts: None,
        hedging: None,
        traps: &[
            "Each request is counted by the client's side and by the server's: reporter is pinned to source.",
            "Errors of the service itself are in it and come fast: leave them out with matchExpressions on response_code.",
            "gRPC streams are in the same histogram and last as long as their stream.",
        ],
    },
    LatencyPreset {
        name: "LinkerdOutbound",
        about: "the proxy's time to the first byte of a response, on the client's side",
        metric: "response_latency_ms",
        unit: Unit::Milliseconds,
        measures: Measures::Attempt,
        at_server: false,
        outcomes: None,
        labels: &[("direction", "outbound")],
        timeouts: None,
        hedging: None,
        traps: &[
            "A request that is cancelled before its response begins leaves no trace: only clients whose losers run on may be \
             tuned by it.",
            "It ends with the first byte of the response: add what the rest takes with delay.add.",
            "Requests that time out or cannot be sent are not in it: name a counter of timeouts where there is one.",
        ],
    },
    LatencyPreset {
        name: "IngressNginx",
        about: "the ingress controller's time of a request, from its first byte to the last byte of the response",
        metric: "nginx_ingress_controller_request_duration_seconds",
        unit: Unit::Seconds,
        measures: Measures::Attempt,
        at_server: true,
        outcomes: Some(KnownOutcomes {
            label: "status",
            cancelled: &["499"],
            ignored: HTTP_FAILURES,
        }),
        labels: &[],
        timeouts: None,
        hedging: None,
        traps: &[
            "It does not see the network between client and ingress: delay.add allows for it.",
            "Slow clients lengthen it: it ends when the response has been sent.",
            "Its buckets end at 10 s, and its help text gives a wrong unit: it is seconds.",
        ],
    },
    LatencyPreset {
        name: "SpringClient",
        about: "Micrometer's time of a request by RestClient, RestTemplate or WebClient",
        metric: "http_client_requests_seconds",
        unit: Unit::Seconds,
        measures: Measures::Attempt,
        at_server: false,
        outcomes: Some(KnownOutcomes {
            label: "status",
            cancelled: &["CLIENT_ERROR", "IO_ERROR"],
            ignored: HTTP_FAILURES,
        }),
        labels: &[],
        timeouts: None,
        hedging: None,
        traps: &[
            "It has no buckets by default: set management.metrics.distribution.percentiles-histogram.http.client.requests=true.",
            "A request that was cancelled has the same status, CLIENT_ERROR, as one that could not be sent: both count as cut \
             short, which lengthens the delay while connections fail.",
            ROUTES,
        ],
    },
    LatencyPreset {
        name: "SpringServer",
        about: "Micrometer's time of a request as a Spring server sees it",
        metric: "http_server_requests_seconds",
        unit: Unit::Seconds,
        measures: Measures::Server,
        at_server: true,
        outcomes: Some(KnownOutcomes {
            label: "status",
            cancelled: &[],
            ignored: HTTP_FAILURES,
        }),
        labels: &[],
        timeouts: None,
        hedging: None,
        traps: &[
            "It has no buckets by default: set management.metrics.distribution.percentiles-histogram.http.server.requests=true.",
            "It does not see the network, nor the time that a request waits to be accepted: delay.add allows for it.",
            "WebFlux gives up a request whose client has gone, status UNKNOWN: it counts as having taken as long as it ran.",
            ROUTES,
        ],
    },
    LatencyPreset {
        name: "OtelHttpClient",
        about: "OpenTelemetry's time of an HTTP request, http.client.request.duration",
        metric: "http_client_request_duration_seconds",
        unit: Unit::Seconds,
        measures: Measures::Attempt,
        at_server: false,
        outcomes: Some(KnownOutcomes {
            label: "error_type",
            cancelled: &[
                "*errors.errorString",
                "AbortError",
                "asyncio.exceptions.CancelledError",
                "cancelled",
                "canceled",
                "context.Canceled",
                "java.util.concurrent.CancellationException",
                "System.OperationCanceledException",
                "System.Threading.Tasks.TaskCanceledException",
            ],
            ignored: HTTP_FAILURES,
        }),
        labels: &[],
        timeouts: None,
        hedging: None,
        traps: &[
            "Each language has a name of its own for a request that was cancelled: look at error_type after a hedge lost, and \
             where the name is not known here, use metric and outcomes instead of the preset.",
            "With an SDK's default buckets, made for milliseconds, everything is in the first one: set boundaries in seconds, \
             as the semantic conventions advise.",
        ],
    },
    LatencyPreset {
        name: "HedgerowClient",
        about: "Hedgerow's own client: whole calls, with the counters of its hedges",
        metric: "hedgerow_client_call_duration_seconds",
        unit: Unit::Seconds,
        measures: Measures::LogicalCall,
        at_server: false,
        outcomes: None,
        labels: &[],
        timeouts: None,
        hedging: Some(KnownHedging {
            calls: "hedgerow_client_calls_total",
            hedges: "hedgerow_client_hedges_total",
            blocked: "hedgerow_client_blocked_total",
            wins: "hedgerow_client_wins_total",
        }),
        traps: &[
            "A call that its caller drops has no duration: give calls a deadline rather than a timeout around them.",
            "The label target is the name that the client was given: name it in matchLabels where a process has several.",
        ],
    },
];
