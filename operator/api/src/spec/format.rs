//! The formats of documents, and what each needs to know of a target.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits;
use crate::text::{CassandraName, Name, PropertyPrefix, SystemName};

/// The format of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum Format {
    /// The native document.
    #[default]
    Hedgerow,
    /// The service config of gRPC.
    GrpcServiceConfig,
    /// Envoy's route discovery.
    EnvoyRoute,
    /// The standard hedging handler of .NET.
    DotnetHedging,
    /// The config file of Kitex.
    Kitex,
    /// The DataStax Java driver.
    DataStax,
    /// Tables of Cassandra.
    Cassandra,
    /// The HDFS client.
    Hdfs,
    /// Loki.
    Loki,
    /// Tempo.
    Tempo,
    /// Lines of `key=value`.
    Properties,
}

/// Where what is needed to know of a target stands: its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Block {
    /// There is none.
    None,
    /// There must be one.
    Needed,
    /// It may be left out.
    Optional,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 11] = [
        Self::Hedgerow,
        Self::GrpcServiceConfig,
        Self::EnvoyRoute,
        Self::DotnetHedging,
        Self::Kitex,
        Self::DataStax,
        Self::Cassandra,
        Self::Hdfs,
        Self::Loki,
        Self::Tempo,
        Self::Properties,
    ];

    /// The name, as in a policy.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hedgerow => "Hedgerow",
            Self::GrpcServiceConfig => "GrpcServiceConfig",
            Self::EnvoyRoute => "EnvoyRoute",
            Self::DotnetHedging => "DotnetHedging",
            Self::Kitex => "Kitex",
            Self::DataStax => "DataStax",
            Self::Cassandra => "Cassandra",
            Self::Hdfs => "Hdfs",
            Self::Loki => "Loki",
            Self::Tempo => "Tempo",
            Self::Properties => "Properties",
        }
    }

    /// Whether it is the native document, the only one that expires.
    pub const fn is_native(self) -> bool {
        matches!(self, Self::Hedgerow)
    }

    /// Whether its clients need a restart, or a person, to take a change on.
    pub const fn is_manual(self) -> bool {
        matches!(
            self,
            Self::DataStax | Self::Cassandra | Self::Hdfs | Self::Loki | Self::Tempo
        )
    }

    /// Whether its clients follow a file only while it stays the same file, which one that kubelet mounts does not.
    pub const fn needs_copy(self) -> bool {
        matches!(self, Self::Kitex)
    }

    /// Whether the document says what hedging may cost. Where it does not, the client needs a limit of its own.
    pub const fn has_budget(self) -> bool {
        matches!(self, Self::Hedgerow | Self::Kitex | Self::Properties)
    }

    /// Whether a document of this format is about one target and no more.
    pub(crate) const fn holds_one_target(self) -> bool {
        matches!(self, Self::Hedgerow | Self::Hdfs | Self::Loki | Self::Tempo)
    }

    /// Whether it is written into a document of the user's own.
    pub const fn takes_base(self) -> bool {
        matches!(
            self,
            Self::EnvoyRoute | Self::GrpcServiceConfig | Self::DotnetHedging | Self::Kitex
        )
    }

    /// Whether there is no document without the user's own.
    pub const fn needs_base(self) -> bool {
        matches!(self, Self::EnvoyRoute)
    }

    /// Whether its targets have a block.
    pub(crate) const fn block(self) -> Block {
        match self {
            Self::Hedgerow | Self::Tempo => Block::None,
            Self::GrpcServiceConfig
            | Self::EnvoyRoute
            | Self::DotnetHedging
            | Self::Kitex
            | Self::Cassandra => Block::Needed,
            Self::DataStax | Self::Hdfs | Self::Loki | Self::Properties => Block::Optional,
        }
    }
}

/// One target of a document.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedTarget {
    /// The name of a target of this policy.
    pub name: Name,

    /// With the format GrpcServiceConfig: the method whose calls are hedged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc_service_config: Option<GrpcServiceConfig>,

    /// With the format EnvoyRoute: the cluster whose routes are hedged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envoy_route: Option<EnvoyRoute>,

    /// With the format DotnetHedging: the client whose calls are hedged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dotnet_hedging: Option<DotnetHedging>,

    /// With the format Kitex: the method whose calls are hedged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kitex: Option<Kitex>,

    /// With the format DataStax: the execution profile that is hedged. May be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_stax: Option<DataStax>,

    /// With the format Cassandra: the table whose reads are hedged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cassandra: Option<Cassandra>,

    /// With the format Hdfs: how reads are hedged. May be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hdfs: Option<Hdfs>,

    /// With the format Loki: how reads of object storage are hedged. May be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loki: Option<Loki>,

    /// With the format Properties: how the keys are named. May be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub properties: Option<Properties>,
}

impl PublishedTarget {
    /// The formats whose block is there.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Format> {
        let Self {
            name: _,
            grpc_service_config,
            envoy_route,
            dotnet_hedging,
            kitex,
            data_stax,
            cassandra,
            hdfs,
            loki,
            properties,
        } = self;
        [
            (Format::GrpcServiceConfig, grpc_service_config.is_some()),
            (Format::EnvoyRoute, envoy_route.is_some()),
            (Format::DotnetHedging, dotnet_hedging.is_some()),
            (Format::Kitex, kitex.is_some()),
            (Format::DataStax, data_stax.is_some()),
            (Format::Cassandra, cassandra.is_some()),
            (Format::Hdfs, hdfs.is_some()),
            (Format::Loki, loki.is_some()),
            (Format::Properties, properties.is_some()),
        ]
        .into_iter()
        .filter_map(|(format, there)| there.then_some(format))
    }
}

/// A method of a gRPC service.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrpcServiceConfig {
    /// The full name of the service. Example: search.Shard.
    pub service: SystemName,

    /// The name of the method. Unset: every method of the service that has no entry of its own. Example: Read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<SystemName>,
}

/// The routes of Envoy that lead to a cluster.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnvoyRoute {
    /// The name of the cluster to which the routes lead, as in the base. Example: kb.
    pub cluster: SystemName,
}

/// An HTTP client of .NET.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DotnetHedging {
    /// The name of the client, under HttpClients of the settings. Example: search.
    pub client: SystemName,
}

/// A method as a Kitex client calls it.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Kitex {
    /// The name of the client. Example: front.
    pub client: SystemName,

    /// The name of the server. Example: search.
    pub server: SystemName,

    /// The name of the method. Example: Read.
    pub method: SystemName,
}

/// An execution profile of the DataStax Java driver.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DataStax {
    /// The name of the profile. Unset: the default profile. Example: reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<SystemName>,
}

/// A table of Cassandra.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cassandra {
    /// The keyspace of the table. Example: kb.
    pub keyspace: CassandraName,

    /// The name of the table. Example: articles.
    pub table: CassandraName,
}

/// The HDFS client.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hdfs {
    /// Threads for hedged reads in each client process, from 1 to 10000, and never more than budget.perClient.maxConcurrent,
    /// which is used when unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::HDFS_THREADS.min, max = limits::HDFS_THREADS.max))]
    pub threads: Option<i32>,
}

/// A Loki that reads from object storage.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Loki {
    /// Hedges per second of each process at most, from 1 to 100000. Unset: 5, as with Loki itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = limits::MAX_PER_SECOND.min, max = limits::MAX_PER_SECOND.max))]
    pub max_per_second: Option<i32>,
}

/// Lines of `key=value`.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Properties {
    /// What stands before each key: letters, digits, -, _ and . characters, at most 128. Unset: nothing. Example: hedging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<PropertyPrefix>,
}
