//! Real parts for tests: a Kubernetes control plane, Prometheus and the operator, started as processes of this machine.
//!
//! Nothing here imitates: [`Cluster`] is etcd and kube-apiserver, [`Node`] runs real pods beside them, [`Prometheus`] is Prometheus, [`Kubectl`] is kubectl.
//! They listen on the loopback interface only, on ports found free at start, and end with the process that started them,
//! however that ends (see [`Process`]).

mod audit;
mod cluster;
mod exposition;
mod gate;
mod health;
mod http;
mod kubectl;
mod link;
mod node;
mod operator;
mod parts;
mod ports;
mod process;
mod prometheus;
mod scratch;
mod tls;
mod wait;

pub use audit::{Audit, AuditEvent, Mark, ObjectReference};
pub use cluster::{Cluster, ClusterOptions, Credentials, Namespace};
pub use exposition::{Exposition, Histogram, Series};
pub use gate::{Act, Asked, Gate, Streams};
pub use health::Health;
pub use http::http_client;
pub use kubectl::{Kubectl, Output};
pub use link::{Condition, Link};
pub use node::{Image, Node};
pub use operator::{Build, Operator, OperatorOptions, hedgerow};
pub use parts::{Part, part, program, repository};
pub use ports::free_port;
pub use process::{Process, processes_alive};
pub use prometheus::{Prometheus, PrometheusOptions};
pub use scratch::scratch;
pub use wait::{eventually, steadily};
