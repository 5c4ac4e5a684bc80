//! Documents for systems that have a form of their own, and no clause that lets orders expire.

mod base;
mod cassandra;
mod data_stax;
mod dotnet_hedging;
mod envoy_route;
mod error;
mod grpc_service_config;
mod hdfs;
mod hedge;
mod kitex;
mod loki;
mod place;
mod properties;
mod proto_duration;
mod tempo;
mod time_span;
mod told;
mod tree;

use hedgerow_tuner::Orders;

pub use self::cassandra::CassandraTable;
pub use self::data_stax::DataStaxProfile;
pub use self::dotnet_hedging::DotnetClient;
pub use self::envoy_route::EnvoyCluster;
pub use self::error::RenderError;
pub use self::grpc_service_config::GrpcMethod;
pub use self::hdfs::HdfsClient;
pub use self::kitex::KitexMethod;
pub use self::loki::LokiClient;
use self::place::twice;
pub use self::properties::PropertiesPrefix;
pub use self::tempo::TempoClient;
use crate::Limits;

/// What a document tells of one target, and `place`, where in the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Part<P> {
    /// The target's name.
    pub target: String,
    /// What its clients shall do.
    pub orders: Orders,
    /// What bounds them beside the orders.
    pub limits: Limits,
    /// Where the system keeps the setting.
    pub place: P,
}

/// A document for one of the other systems: its form, and a part for each target.
#[derive(Clone, Debug, PartialEq)]
pub enum Form {
    /// The service config of gRPC, as JSON: Java, Node and .NET hedge by it.
    GrpcServiceConfig(Vec<Part<GrpcMethod>>),
    /// Envoy's route discovery, as YAML, over the user's own.
    EnvoyRoute(Vec<Part<EnvoyCluster>>),
    /// The standard hedging handler of `Microsoft.Extensions.Http.Resilience`, as JSON settings.
    DotnetHedging(Vec<Part<DotnetClient>>),
    /// The config file of Kitex, as JSON.
    Kitex(Vec<Part<KitexMethod>>),
    /// The configuration of the DataStax Java driver 4, as HOCON.
    DataStax(Vec<Part<DataStaxProfile>>),
    /// Statements in CQL that set `speculative_retry` of tables.
    Cassandra(Vec<Part<CassandraTable>>),
    /// Properties of the HDFS client, as Hadoop's XML.
    Hdfs(Vec<Part<HdfsClient>>),
    /// The `hedging` block of Loki's storage config, as YAML.
    Loki(Vec<Part<LokiClient>>),
    /// Tempo's settings of hedged requests, as YAML.
    Tempo(Vec<Part<TempoClient>>),
    /// Lines of `key=value` with the native document's keys.
    Properties(Vec<Part<PropertiesPrefix>>),
}

/// How a change reaches a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The client takes on a changed file while it runs.
    Live,
    /// The same, but for a file that kubelet mounts: it follows a copy, which somebody has to keep.
    ByCopy,
    /// The client wants a restart, or a person who carries the change on.
    Manual,
}

impl Form {
    /// The document, over `base` where there is one: the user's own document, which is the form of off.
    ///
    /// A delay is rounded up to the unit of the system. A target that is off is as the base has it.
    ///
    /// # Errors
    ///
    /// [`RenderError::Base`] when the base is missing, cannot be read, or has no such place; [`RenderError::Orders`] when
    /// the system cannot be told these orders, or would refuse them.
    pub fn render(&self, base: Option<&str>) -> Result<String, RenderError> {
        match self {
            Self::GrpcServiceConfig(parts) => grpc_service_config::render(parts, base),
            Self::EnvoyRoute(parts) => envoy_route::render(parts, base),
            Self::DotnetHedging(parts) => dotnet_hedging::render(parts, base),
            Self::Kitex(parts) => kitex::render(parts, base),
            Self::DataStax(parts) => data_stax::render(parts),
            Self::Cassandra(parts) => cassandra::render(parts),
            Self::Hdfs(parts) => hdfs::render(parts),
            Self::Loki(parts) => loki::render(parts),
            Self::Tempo(parts) => tempo::render(parts),
            Self::Properties(parts) => properties::render(parts),
        }
    }

    /// Two targets that are told of in one place, the later one last: what one is told would overwrite what the other is.
    pub fn one_place_twice(&self) -> Option<[&str; 2]> {
        match self {
            Self::GrpcServiceConfig(parts) => twice(parts),
            Self::EnvoyRoute(parts) => twice(parts),
            Self::DotnetHedging(parts) => twice(parts),
            Self::Kitex(parts) => twice(parts),
            Self::DataStax(parts) => twice(parts),
            Self::Cassandra(parts) => twice(parts),
            Self::Hdfs(parts) => twice(parts),
            Self::Loki(parts) => twice(parts),
            Self::Tempo(parts) => twice(parts),
            Self::Properties(parts) => twice(parts),
        }
    }

    /// Whether the system can be told a part of a budget. One that cannot is off while the budget ramps up.
    pub const fn ramps(&self) -> bool {
        matches!(self, Self::Kitex(_) | Self::Properties(_))
    }

    /// How a change of this document reaches its clients.
    pub const fn delivery(&self) -> Delivery {
        match self {
            Self::GrpcServiceConfig(_)
            | Self::EnvoyRoute(_)
            | Self::DotnetHedging(_)
            | Self::Properties(_) => Delivery::Live,
            // Its watcher waits for writes to the file, and kubelet replaces it.
            Self::Kitex(_) => Delivery::ByCopy,
            Self::DataStax(_) | Self::Cassandra(_) | Self::Hdfs(_) | Self::Loki(_) | Self::Tempo(_) => {
                Delivery::Manual
            }
        }
    }
}
