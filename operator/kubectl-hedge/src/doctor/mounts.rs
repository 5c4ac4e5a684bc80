//! Pods that use a document in a way that never follows it: kubelet renews neither what is mounted by `subPath` nor the
//! environment of a container.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Container, Pod, Volume};

/// What is wrong with a pod's use of these ConfigMaps, and what to do.
pub(super) fn frozen(pod: &Pod, config_maps: &BTreeSet<String>) -> Vec<String> {
    let name = format!(
        "pod {}/{}",
        pod.metadata.namespace.as_deref().unwrap_or_default(),
        pod.metadata.name.as_deref().unwrap_or_default()
    );
    let Some(spec) = &pod.spec else { return Vec::new() };
    let volumes: Vec<(&str, String)> = spec
        .volumes
        .iter()
        .flatten()
        .flat_map(|volume| sources(volume).map(|config_map| (volume.name.as_str(), config_map)))
        .filter(|(_, config_map)| config_maps.contains(config_map))
        .collect();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let of_container = |container: &Container| {
        let mounts = container.volume_mounts.iter().flatten();
        let by_sub_path = mounts.filter(|mount| mount.sub_path.is_some() || mount.sub_path_expr.is_some());
        let mut found: Vec<String> = by_sub_path
            .flat_map(|mount| volumes.iter().filter(|(volume, _)| *volume == mount.name))
            .map(|(_, config_map)| {
                format!(
                    "{name}, container {}, mounts ConfigMap {config_map} by subPath and never sees a change: mount the whole \
                     volume, without subPath",
                    container.name
                )
            })
            .collect();
        found.extend(environment(container).filter(|config_map| config_maps.contains(config_map)).map(|config_map| {
            format!(
                "{name}, container {}, has ConfigMap {config_map} in its environment and never sees a change: mount it as a file",
                container.name
            )
        }));
        found
    };
    containers.flat_map(of_container).collect()
}

/// The ConfigMaps that a volume is made of.
fn sources(volume: &Volume) -> impl Iterator<Item = String> {
    let own = volume.config_map.iter().map(|source| source.name.clone());
    let projected = volume
        .projected
        .iter()
        .flat_map(|projected| projected.sources.iter().flatten());
    let projected = projected.filter_map(|source| Some(source.config_map.as_ref()?.name.clone()));
    own.chain(projected)
}

/// The ConfigMaps that a container's environment is made of.
fn environment(container: &Container) -> impl Iterator<Item = String> {
    let whole = container.env_from.iter().flatten();
    let whole = whole.filter_map(|from| Some(from.config_map_ref.as_ref()?.name.clone()));
    let keys = container.env.iter().flatten();
    let keys = keys.filter_map(|one| {
        let reference = one.value_from.as_ref()?.config_map_key_ref.as_ref()?;
        Some(reference.name.clone())
    });
    whole.chain(keys)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(mount: Value, environment: Value) -> Vec<String> {
        let pod = json!({
            "metadata": { "namespace": "shop", "name": "front" },
            "spec": {
                "volumes": [
                    { "name": "hedging", "configMap": { "name": "kb-hedging" } },
                    { "name": "all", "projected": { "sources": [{ "configMap": { "name": "kb-hedging" } }] } },
                    { "name": "other", "configMap": { "name": "other" } },
                ],
                "containers": [{ "name": "c", "volumeMounts": [mount], "env": environment }],
            },
        });
        frozen(
            &serde_json::from_value(pod).unwrap(),
            &BTreeSet::from(["kb-hedging".to_owned()]),
        )
    }

    #[test]
    fn a_mount_by_sub_path_never_follows() {
        for volume in ["hedging", "all"] {
            let mount = json!({ "name": volume, "mountPath": "/a", "subPath": "x.json" });
            let found = found(mount, json!([]));
            assert_eq!(found.len(), 1);
            assert!(
                found[0].contains("pod shop/front, container c, mounts ConfigMap kb-hedging by subPath"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn an_environment_never_follows() {
        let reference = json!([{ "name": "A", "valueFrom": { "configMapKeyRef": { "name": "kb-hedging", "key": "k" } } }]);
        let found = found(json!({ "name": "hedging", "mountPath": "/a" }), reference);
        assert!(
            found.len() == 1 && found[0].contains("in its environment"),
            "{found:?}"
        );
    }

    #[test]
    fn whole_mounts_and_config_maps_of_others_are_none_of_it() {
        for mount in [
            json!({ "name": "hedging", "mountPath": "/a" }),
            json!({ "name": "other", "mountPath": "/a", "subPath": "x" }),
        ] {
            assert_eq!(found(mount, json!([])), Vec::<String>::new());
        }
    }
}
