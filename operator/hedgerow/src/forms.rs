//! From what a policy says of a document to the form that its system reads. Pure.

use hedgerow_api::{Format, HedgePolicySpec, Output, PublishedTarget};
use hedgerow_config::{
    CassandraTable, DataStaxProfile, DotnetClient, EnvoyCluster, Form, GrpcMethod, HdfsClient, KitexMethod,
    Limits, LokiClient, Part, PropertiesPrefix, TempoClient,
};
use hedgerow_tuner::{Orders, Reason};

/// What a document tells of one of its targets.
pub(crate) struct Told {
    /// What its clients shall do.
    pub(crate) orders: Orders,
    /// What bounds them beside the orders.
    pub(crate) limits: Limits,
}

impl Told {
    /// The same with hedging off.
    pub(crate) fn off(limits: Limits) -> Self {
        Self {
            orders: Orders {
                hedging: None,
                reason: Reason::Stopped,
            },
            limits,
        }
    }
}

/// The document that `output` asks for; `told` is what it tells of a target of that name. `None` for a native document,
/// which is not rendered over anything.
pub(crate) fn form(output: &Output, told: impl Fn(&str) -> Option<Told>) -> Option<Form> {
    let parts = Parts { output, told };
    Some(match output.format {
        Format::Hedgerow => return None,
        Format::GrpcServiceConfig => Form::GrpcServiceConfig(parts.at(grpc_method)),
        Format::EnvoyRoute => Form::EnvoyRoute(parts.at(envoy_cluster)),
        Format::DotnetHedging => Form::DotnetHedging(parts.at(dotnet_client)),
        Format::Kitex => Form::Kitex(parts.at(kitex_method)),
        Format::DataStax => Form::DataStax(parts.at(data_stax_profile)),
        Format::Cassandra => Form::Cassandra(parts.at(cassandra_table)),
        Format::Hdfs => Form::Hdfs(parts.at(hdfs_client)),
        Format::Loki => Form::Loki(parts.at(loki_client)),
        Format::Tempo => Form::Tempo(parts.at(|_| Some(TempoClient { max_per_second: None }))),
        Format::Properties => Form::Properties(parts.at(properties_prefix)),
    })
}

struct Parts<'a, F> {
    output: &'a Output,
    told: F,
}

impl<F: Fn(&str) -> Option<Told>> Parts<'_, F> {
    /// The part of each target, at the place that its block says.
    fn at<P>(&self, place: impl Fn(&PublishedTarget) -> Option<P>) -> Vec<Part<P>> {
        let part = |target: &PublishedTarget| {
            let Told { orders, limits } = (self.told)(&target.name)?;
            Some(Part {
                target: target.name.to_string(),
                orders,
                limits,
                place: place(target)?,
            })
        };
        self.output.targets.iter().filter_map(part).collect()
    }
}

/// Two targets that a document would tell of in one place, of which one would be lost: where, and what to do.
pub(crate) fn one_place_twice(spec: &HedgePolicySpec) -> Option<String> {
    let off = |_: &str| {
        Some(Told::off(Limits {
            deadline: None,
            max_attempts: 2,
            max_concurrent: 1,
        }))
    };
    let twice = |(at, output): (usize, &Output)| {
        let form = form(output, off)?;
        let [earlier, later] = form.one_place_twice()?;
        let index = output.targets.iter().position(|target| *target.name == *later)?;
        let mut block = serde_json::to_value(&output.targets[index]).ok()?;
        block.as_object_mut()?.remove("name");
        Some(format!(
            "spec.publish[{at}].targets[{index}]: {later} has the same place in {}/{} as {earlier}, {block}: publish one of \
             the two, or give each a place of its own",
            output.config_map, output.key
        ))
    };
    spec.publish.iter().enumerate().find_map(twice)
}

fn grpc_method(target: &PublishedTarget) -> Option<GrpcMethod> {
    let block = target.grpc_service_config.as_ref()?;
    Some(GrpcMethod {
        service: block.service.to_string(),
        method: block.method.as_ref().map(ToString::to_string),
    })
}

fn envoy_cluster(target: &PublishedTarget) -> Option<EnvoyCluster> {
    let block = target.envoy_route.as_ref()?;
    Some(EnvoyCluster {
        cluster: block.cluster.to_string(),
    })
}

fn dotnet_client(target: &PublishedTarget) -> Option<DotnetClient> {
    let block = target.dotnet_hedging.as_ref()?;
    Some(DotnetClient {
        client: block.client.to_string(),
    })
}

fn kitex_method(target: &PublishedTarget) -> Option<KitexMethod> {
    let block = target.kitex.as_ref()?;
    Some(KitexMethod {
        client: block.client.to_string(),
        server: block.server.to_string(),
        method: block.method.to_string(),
    })
}

fn cassandra_table(target: &PublishedTarget) -> Option<CassandraTable> {
    let block = target.cassandra.as_ref()?;
    Some(CassandraTable {
        keyspace: block.keyspace.to_string(),
        table: block.table.to_string(),
    })
}

// Blocks that may be left out say the same as empty ones.

#[expect(clippy::unnecessary_wraps, reason = "one signature for every block")]
fn data_stax_profile(target: &PublishedTarget) -> Option<DataStaxProfile> {
    let profile = target.data_stax.as_ref().and_then(|block| block.profile.as_ref());
    Some(DataStaxProfile {
        profile: profile.map(ToString::to_string),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for every block")]
fn hdfs_client(target: &PublishedTarget) -> Option<HdfsClient> {
    let threads = target.hdfs.as_ref().and_then(|block| block.threads);
    Some(HdfsClient {
        threads: threads.and_then(|threads| u32::try_from(threads).ok()),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for every block")]
fn loki_client(target: &PublishedTarget) -> Option<LokiClient> {
    let most = target.loki.as_ref().and_then(|block| block.max_per_second);
    Some(LokiClient {
        max_per_second: most.and_then(|most| u32::try_from(most).ok()),
    })
}

#[expect(clippy::unnecessary_wraps, reason = "one signature for every block")]
fn properties_prefix(target: &PublishedTarget) -> Option<PropertiesPrefix> {
    let prefix = target.properties.as_ref().and_then(|block| block.prefix.as_ref());
    Some(PropertiesPrefix {
        prefix: prefix.map(ToString::to_string),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use hedgerow_config::Delivery;
    use serde_json::json;

    use super::*;

    fn output(format: Format) -> Output {
        let written = json!({
            "configMap": "kb", "key": "k", "format": format.as_str(),
            "targets": [{
                "name": "a",
                "grpcServiceConfig": { "service": "search.Shard" }, "envoyRoute": { "cluster": "kb" },
                "dotnetHedging": { "client": "search" },
                "kitex": { "client": "front", "server": "search", "method": "Read" },
                "cassandra": { "keyspace": "kb", "table": "articles" },
            }, { "name": "gone" }],
        });
        serde_json::from_value(written).unwrap()
    }

    fn told(name: &str) -> Option<Told> {
        let limits = Limits {
            deadline: Some(Duration::from_secs(1)),
            max_attempts: 2,
            max_concurrent: 100,
        };
        (name == "a").then(|| Told::off(limits))
    }

    #[test]
    fn every_format_but_the_native_one_has_a_form_that_reaches_clients_as_the_api_says() {
        for format in Format::ALL {
            let delivery = form(&output(format), told).map(|form| form.delivery());
            let expected = match (format.is_native(), format.is_manual()) {
                (true, _) => None,
                (false, true) => Some(Delivery::Manual),
                (false, false) if format.needs_copy() => Some(Delivery::ByCopy),
                (false, false) => Some(Delivery::Live),
            };
            assert_eq!(delivery, expected, "{format:?}");
        }
    }

    fn publishing(format: &str, targets: &serde_json::Value) -> HedgePolicySpec {
        let mut spec = crate::fixtures::written_spec();
        spec["publish"] = json!([
            { "configMap": "other", "key": "k", "format": "Properties", "targets": [{ "name": "shard-read" }] },
            { "configMap": "kb", "key": "k", "format": format, "targets": targets },
        ]);
        serde_json::from_value(spec).unwrap()
    }

    #[test]
    fn two_targets_in_one_place_of_a_document_are_told_with_the_place() {
        let cluster =
            |name: &str, cluster: &str| json!({ "name": name, "envoyRoute": { "cluster": cluster } });
        let spec = publishing(
            "EnvoyRoute",
            &json!([cluster("a", "kb"), cluster("b", "faq"), cluster("c", "kb")]),
        );
        assert_eq!(
            one_place_twice(&spec).unwrap(),
            "spec.publish[1].targets[2]: c has the same place in kb/k as a, {\"envoyRoute\":{\"cluster\":\"kb\"}}: publish \
             one of the two, or give each a place of its own"
        );
        let apart = publishing("EnvoyRoute", &json!([cluster("a", "kb"), cluster("b", "faq")]));
        assert_eq!(one_place_twice(&apart), None);
    }

    /// As the system itself reads its keys.
    #[test]
    fn places_are_the_same_where_the_system_takes_them_for_the_same() {
        let client =
            |name: &str, client: &str| json!({ "name": name, "dotnetHedging": { "client": client } });
        let spec = publishing(
            "DotnetHedging",
            &json!([client("a", "search"), client("b", "Search")]),
        );
        assert!(one_place_twice(&spec).is_some());
        let spec = publishing(
            "DataStax",
            &json!([{ "name": "a" }, { "name": "b", "dataStax": {} }]),
        );
        assert!(one_place_twice(&spec).is_some());
        let method = |name: &str, method: &str| json!({ "name": name, "kitex": { "client": "front", "server": "search", "method": method } });
        let spec = publishing("Kitex", &json!([method("a", "Read"), method("b", "read")]));
        assert_eq!(one_place_twice(&spec), None);
    }

    #[test]
    fn a_target_of_which_nothing_is_told_has_no_part() {
        let Some(Form::EnvoyRoute(parts)) = form(&output(Format::EnvoyRoute), told) else {
            panic!("another form")
        };
        assert_eq!(parts.len(), 1);
        assert_eq!(
            (parts[0].target.as_str(), parts[0].place.cluster.as_str()),
            ("a", "kb")
        );
    }

    #[test]
    fn exactly_the_formats_that_need_a_base_cannot_do_without() {
        for format in Format::ALL {
            let Some(form) = form(&output(format), told) else {
                continue;
            };
            assert_eq!(form.render(None).is_err(), format.needs_base(), "{format:?}");
        }
    }
}
