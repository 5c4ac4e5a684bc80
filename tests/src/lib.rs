//! Real parts for tests: a Kubernetes control plane, Prometheus and the operator, started as processes of this machine.
//!
//! Nothing here imitates: [`Cluster`] is etcd and kube-apiserver, [`Node`] runs real pods beside them, [`Prometheus`] is Prometheus, [`Kubectl`] is kubectl.
//! They listen on the loopback interface only, on ports found free at start, and end with the process that started them,
//! however that ends (see [`Process`]).

mod audit;
mod browser;
mod cluster;
mod exposition;
mod gate;
mod health;
mod helm;
mod http;
mod kubectl;
mod link;
mod metric_family;
mod node;
mod operator;
mod output;
mod parts;
mod ports;
mod process;
mod prometheus;
mod release;
mod scratch;
mod stall;
mod tls;
mod wait;

pub use audit::{Audit, AuditEvent, Mark, ObjectReference};
pub use browser::{Browser, Look, file_url};
pub use cluster::{Cluster, ClusterOptions, Credentials, Namespace};
pub use exposition::{Exposition, Histogram, Series};
pub use gate::{Act, Asked, Gate, Streams};
pub use health::Health;
pub use helm::{Helm, HelmVersion, objects};
pub use http::http_client;
pub use kubectl::Kubectl;
pub use link::{Condition, Link};
pub use metric_family::{
    MetricFamilies, MetricFamily, documented_labels, documented_metrics, exported_metrics,
    metrics_are_documented, metrics_page, series, values_are_documented,
};
pub use node::{Image, Node};
pub use operator::{Build, Operator, OperatorOptions, hedgerow, kubectl_hedge, run_as, run_installed};
pub use output::{Output, output_of};
pub use parts::{Part, part, program, repository};
pub use ports::free_port;
pub use process::{Process, processes_alive};
pub use prometheus::{Prometheus, PrometheusOptions};
pub use release::Release;
pub use scratch::scratch;
pub use stall::Stalls;
pub use wait::{Hopeless, eventually, steadily};
