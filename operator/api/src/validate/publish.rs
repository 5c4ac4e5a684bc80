//! Checks of where documents are written, and how.

use std::collections::BTreeMap;

use regex_lite::Regex;
use std::sync::LazyLock;

use super::at::At;
use crate::rules::{self, CrossRule};
use crate::spec::Block;
use crate::{Format, HedgePolicySpec, NudgePods, Output, PublishedTarget, limits};

/// A document by itself.
pub(super) fn check(at: &mut At<'_>, output: &Output) {
    at.field("configMap").text(&output.config_map);
    at.field("key").text(&output.key);
    let key = &*output.key;
    at.rule(
        rules::KEY_RESERVED,
        key != "." && key != ".." && !key.ends_with(".base"),
        Some(key),
    );
    at.rule(
        rules::NOT_THE_STOP,
        &*output.config_map != crate::names::OFF_CONFIG_MAP,
        None::<&str>,
    );
    if let Some(base) = &output.base {
        let mut at = at.field("base");
        at.field("configMap").text(&base.config_map);
        at.field("key").text(&base.key);
    }
    if let Some(nudge) = &output.nudge_pods {
        check_pods(&mut at.field("nudgePods").field("matchLabels"), nudge);
    }

    let mut targets = at.field("targets");
    targets.length(output.targets.len(), 1, limits::MAX_TARGETS);
    targets.unique(output.targets.iter().map(|target| &target.name));
    for (index, target) in output.targets.iter().enumerate() {
        check_target(&mut targets.index(index), target);
    }
    check_format(at, output);
}

/// What goes with the format and what does not.
fn check_format(at: &mut At<'_>, output: &Output) {
    let format = output.format;
    let nothing = None::<&str>;
    let single = !format.holds_one_target() || output.targets.len() == 1;
    at.rule(rules::ONE_TARGET, single, nothing);
    let base = output.base.is_some();
    at.rule(rules::BASE_NEEDED, base || !format.needs_base(), nothing);
    at.rule(
        rules::BASE_TAKEN,
        !base || format.takes_base(),
        Some(format.as_str()),
    );
    let said = output.manual_off.is_some();
    at.rule(
        rules::MANUAL_FORMAT,
        !said || format.is_manual(),
        Some(format.as_str()),
    );
    for (of, rule) in Format::ALL
        .into_iter()
        .filter_map(|of| Some((of, block_rule(of)?)))
    {
        let there = |target: &PublishedTarget| target.blocks().any(|block| block == of);
        let fits = |target| match of.block() {
            Block::Needed => there(target) == (format == of),
            Block::Optional | Block::None => format == of || !there(target),
        };
        let wrong = output.targets.iter().find(|target| !fits(target));
        at.rule(rule, wrong.is_none(), wrong.map(|target| &*target.name));
    }
}

fn block_rule(format: Format) -> Option<CrossRule> {
    Some(match format {
        Format::Hedgerow | Format::Tempo => return None,
        Format::GrpcServiceConfig => rules::GRPC_SERVICE_CONFIG_BLOCK,
        Format::EnvoyRoute => rules::ENVOY_ROUTE_BLOCK,
        Format::DotnetHedging => rules::DOTNET_HEDGING_BLOCK,
        Format::Kitex => rules::KITEX_BLOCK,
        Format::DataStax => rules::DATA_STAX_BLOCK,
        Format::Cassandra => rules::CASSANDRA_BLOCK,
        Format::Hdfs => rules::HDFS_BLOCK,
        Format::Loki => rules::LOKI_BLOCK,
        Format::Properties => rules::PROPERTIES_BLOCK,
    })
}

fn check_target(at: &mut At<'_>, target: &PublishedTarget) {
    at.field("name").text(&target.name);
    if let Some(grpc) = &target.grpc_service_config {
        let mut at = at.field("grpcServiceConfig");
        at.field("service").text(&grpc.service);
        at.field("method").optional_text(grpc.method.as_ref());
    }
    if let Some(envoy) = &target.envoy_route {
        at.field("envoyRoute").field("cluster").text(&envoy.cluster);
    }
    if let Some(dotnet) = &target.dotnet_hedging {
        at.field("dotnetHedging").field("client").text(&dotnet.client);
    }
    if let Some(kitex) = &target.kitex {
        let mut at = at.field("kitex");
        at.field("client").text(&kitex.client);
        at.field("server").text(&kitex.server);
        at.field("method").text(&kitex.method);
    }
    if let Some(data_stax) = &target.data_stax {
        let mut at = at.field("dataStax");
        at.field("profile").optional_text(data_stax.profile.as_ref());
    }
    if let Some(cassandra) = &target.cassandra {
        let mut at = at.field("cassandra");
        at.field("keyspace").text(&cassandra.keyspace);
        at.field("table").text(&cassandra.table);
    }
    if let Some(hdfs) = &target.hdfs {
        let mut at = at.field("hdfs");
        at.field("threads").integer(hdfs.threads, limits::HDFS_THREADS);
    }
    if let Some(loki) = &target.loki {
        let mut at = at.field("loki");
        at.field("maxPerSecond")
            .integer(loki.max_per_second, limits::MAX_PER_SECOND);
    }
    if let Some(properties) = &target.properties {
        let mut at = at.field("properties");
        at.field("prefix").optional_text(properties.prefix.as_ref());
    }
}

/// Labels that go into a selector of pods.
fn check_pods(at: &mut At<'_>, nudge: &NudgePods) {
    static KEY: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new("^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[a-zA-Z0-9]([-._a-zA-Z0-9]{0,61}[a-zA-Z0-9])?$").ok()
    });
    let labels = &nudge.match_labels.0;
    at.length(labels.len(), 1, limits::MAX_LABELS);
    let is_key = |key: &str| key.len() <= 317 && KEY.as_ref().is_some_and(|pattern| pattern.is_match(key));
    let wrong = labels.keys().find(|key| !is_key(key));
    at.rule(rules::POD_LABEL_KEYS, wrong.is_none(), wrong);
    for (key, value) in labels {
        at.field(key).text(value);
    }
}

/// The documents together, and with the targets that they are about.
pub(super) fn check_together(at: &mut At<'_>, spec: &HedgePolicySpec) {
    let mut native = BTreeMap::new();
    let mixed = spec.publish.iter().find(|output| {
        let kind = output.format.is_native();
        *native.entry(&*output.config_map).or_insert(kind) != kind
    });
    at.rule(
        rules::NATIVE_OR_OTHERS,
        mixed.is_none(),
        mixed.map(|output| &*output.config_map),
    );
    let base = spec.publish.iter().filter_map(|output| output.base.as_ref());
    let published = base
        .map(|base| &*base.config_map)
        .find(|base| native.contains_key(base));
    at.rule(rules::BASE_IS_NO_OUTPUT, published.is_none(), published);

    let switched = |name: &str| {
        let mut named = spec.targets.iter().filter(|target| &*target.name == name);
        named.any(|target| !target.saturation.signals.is_empty())
    };
    let unaccepted = spec.publish.iter().find(|output| {
        output.format.is_manual()
            && output.manual_off.is_none()
            && output.targets.iter().any(|target| switched(&target.name))
    });
    at.rule(
        rules::MANUAL_OFF_ACCEPTED,
        unaccepted.is_none(),
        unaccepted
            .map(|output| format!("{}/{}", output.config_map, output.key))
            .as_ref(),
    );
}
