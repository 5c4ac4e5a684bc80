//! The examples: what one applies for each kind of client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hedgerow_api::{HedgePolicySpec, Output, decode_spec};
use hedgerow_config::{DotnetClient, EnvoyCluster, Form, GrpcMethod, KitexMethod};
use hedgerow_tests::{Part, part, repository, scratch};
use hedgerow_tuner::Orders;
use serde_json::Value;

use crate::mounted::Mounted;
use crate::orders::{hedge_after, off, part_of};

/// The data `key` of the ConfigMap in a file of `examples/`.
pub(crate) fn example_data(file: &str, key: &str) -> String {
    let path = repository().join("examples").join(file);
    let object: Value = serde_saphyr::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    object["data"][key].as_str().unwrap().to_owned()
}

/// The objects in the YAML files of a folder of `examples/`.
fn objects(folder: &Path) -> Vec<Value> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files
        .filter(|file| file.extension().is_some_and(|extension| extension == "yaml"))
        .flat_map(|file| serde_saphyr::from_multiple::<Value>(&fs::read_to_string(file).unwrap()).unwrap())
        .collect()
}

/// The folders with a policy.
fn folders() -> Vec<PathBuf> {
    let all = fs::read_dir(repository().join("examples")).unwrap();
    let folders = all.map(|entry| entry.unwrap().path());
    folders
        .filter(|folder| folder.join("policy.yaml").exists())
        .collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str) -> Vec<&'a Value> {
    objects.iter().filter(|object| object["kind"] == kind).collect()
}

fn policies(objects: &[Value]) -> Vec<HedgePolicySpec> {
    let policies = of_kind(objects, "HedgePolicy");
    policies
        .into_iter()
        .map(|policy| decode_spec(&policy["spec"]).unwrap_or_else(|errors| panic!("{policy}: {errors:?}")))
        .collect()
}

#[test]
fn there_is_an_example_for_each_format() {
    let published = folders()
        .iter()
        .flat_map(|folder| policies(&objects(folder)))
        .flat_map(|policy| policy.publish)
        .map(|output| output.format)
        .collect::<Vec<_>>();
    for format in hedgerow_api::Format::ALL {
        assert!(published.contains(&format), "{} has no example", format.as_str());
    }
}

#[test]
fn a_base_is_there_and_agrees_to_be_read() {
    for folder in folders() {
        let objects = objects(&folder);
        for output in policies(&objects).into_iter().flat_map(|policy| policy.publish) {
            let Some(base) = output.base else { continue };
            let found = of_kind(&objects, "ConfigMap")
                .into_iter()
                .find(|map| map["metadata"]["name"] == *base.config_map)
                .unwrap_or_else(|| panic!("{}: no base", folder.display()));
            assert_eq!(found["metadata"]["labels"]["hedgerow.dev/role"], "base");
            assert!(found["data"][&*base.key].is_string(), "{}", folder.display());
        }
    }
}

/// What is off is the base, and what is on is not.
#[test]
fn hedging_is_written_into_each_base() {
    for folder in folders() {
        let objects = objects(&folder);
        for output in policies(&objects).into_iter().flat_map(|policy| policy.publish) {
            let Some(base) = &output.base else { continue };
            let maps = of_kind(&objects, "ConfigMap");
            let map = maps
                .into_iter()
                .find(|map| map["metadata"]["name"] == *base.config_map);
            let base = map.unwrap()["data"][&*base.key].as_str();
            assert_eq!(form(&output, off()).render(base).as_deref(), Ok(base.unwrap()));
            assert_ne!(
                form(&output, hedge_after(300.0)).render(base).as_deref().unwrap(),
                base.unwrap()
            );
        }
    }
}

/// The form of an output with a base, for its first target.
fn form(output: &Output, orders: Orders) -> Form {
    let [target, ..] = &output.targets[..] else {
        panic!("an output without targets")
    };
    if let Some(place) = &target.envoy_route {
        let cluster = place.cluster.to_string();
        Form::EnvoyRoute(vec![part_of(orders, EnvoyCluster { cluster })])
    } else if let Some(place) = &target.grpc_service_config {
        let (service, method) = (
            place.service.to_string(),
            place.method.as_deref().map(str::to_owned),
        );
        Form::GrpcServiceConfig(vec![part_of(orders, GrpcMethod { service, method })])
    } else if let Some(place) = &target.dotnet_hedging {
        let client = place.client.to_string();
        Form::DotnetHedging(vec![part_of(orders, DotnetClient { client })])
    } else if let Some(place) = &target.kitex {
        let (client, server, method) = (&place.client, &place.server, &place.method);
        let place = KitexMethod {
            client: client.to_string(),
            server: server.to_string(),
            method: method.to_string(),
        };
        Form::Kitex(vec![part_of(orders, place)])
    } else {
        panic!("{} takes no base", output.format.as_str())
    }
}

/// A pod starts where nothing is published yet, and sees what is published later.
#[test]
fn an_output_is_mounted_as_a_folder_and_may_be_absent() {
    for folder in folders() {
        let objects = objects(&folder);
        let outputs = policies(&objects).into_iter().flat_map(|policy| policy.publish);
        let outputs = outputs
            .map(|output| output.config_map.to_string())
            .collect::<Vec<_>>();
        for deployment in of_kind(&objects, "Deployment") {
            let pod = &deployment["spec"]["template"]["spec"];
            let text = pod.to_string();
            assert!(!text.contains("subPath"), "{}", folder.display());
            let mounted = of_outputs(&pod["volumes"], &outputs);
            assert!(!mounted.is_empty(), "{} mounts no output", folder.display());
            for source in mounted {
                assert_eq!(source["optional"], true, "{}", folder.display());
            }
        }
    }
}

/// The sources of volumes, direct or projected, that are one of `outputs`.
fn of_outputs<'a>(volumes: &'a Value, outputs: &[String]) -> Vec<&'a Value> {
    let volumes = volumes.as_array().unwrap().iter();
    let sources = volumes.flat_map(|volume| match volume["projected"]["sources"].as_array() {
        Some(sources) => sources.iter().collect(),
        None => vec![volume],
    });
    sources
        .map(|source| &source["configMap"])
        .filter(|source| {
            source["name"]
                .as_str()
                .is_some_and(|name| outputs.iter().any(|output| output == name))
        })
        .collect()
}

#[test]
fn envoy_starts_with_the_bootstrap_and_the_base() {
    let base = Mounted::new("rds.yaml", &example_data("envoy/routes.yaml", "rds.yaml"));
    let bootstrap = example_data("envoy/bootstrap.yaml", "envoy.yaml");
    let file = scratch("bootstrap").unwrap().join("envoy.yaml");
    fs::write(
        &file,
        bootstrap.replace("/etc/hedgerow", base.folder().to_str().unwrap()),
    )
    .unwrap();
    let envoy = Command::new(part(Part::Envoy).unwrap())
        .args(["--mode", "validate", "--config-path"])
        .arg(&file)
        .output()
        .unwrap();
    assert!(
        envoy.status.success(),
        "{}",
        String::from_utf8_lossy(&envoy.stderr)
    );
}
