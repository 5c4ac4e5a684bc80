//! Everything as a process of this machine, on a control plane without nodes.

use anyhow::Result;
use hedgerow_stage::{ControlPlane, NAMESPACE, Servers, start, text};
use hedgerow_tests::{PrometheusOptions, free_port};

use super::{CONFIG_MAP, KEY, LOAD_SECONDS, Parts, Stage};
use crate::show::Show;

impl Stage {
    /// Starts everything but the policy.
    pub(crate) async fn of_processes(show: &Show, rate: f64) -> Result<Self> {
        show.phase(
            "Setting the stage",
            "etcd, kube-apiserver, Prometheus, the operator, 8 shards of 2 replicas, a front end",
        );
        let plane = ControlPlane::set("demo").await?;
        let folder = plane.folder().to_owned();
        let servers = Servers::start("shards", &folder, &[]).await?;
        let client = plane.front_end().await?;
        let front_end = format!("127.0.0.1:{}", free_port()?);
        let front = start(
            "search-cluster",
            "front-end",
            &folder,
            &[
                "front-end",
                "--shards",
                text(servers.addresses())?,
                "--listen",
                &front_end,
                "--kubeconfig",
                text(client.kubeconfig())?,
                "--config-map",
                &format!("{NAMESPACE}/{CONFIG_MAP}/{KEY}"),
            ],
        )?;
        let prometheus = PrometheusOptions::new()
            .job("kb", servers.control().address().parse()?)
            .job("front", front_end.parse()?)
            .folder(folder.join("prometheus"))
            .start()
            .await?;
        let metrics = format!("127.0.0.1:{}", free_port()?);
        let operator = plane.operator(&prometheus, &metrics).await?;
        let load = start(
            "search-cluster",
            "load",
            &folder,
            &[
                "load",
                "--url",
                &format!("http://{front_end}/search"),
                "--rate",
                &rate.to_string(),
                "--seconds",
                &LOAD_SECONDS.to_string(),
            ],
        )?;
        Ok(Self {
            kubectl: plane.kubectl().clone(),
            kubeconfig: plane.cluster().admin().kubeconfig().to_owned(),
            client: plane.cluster().client().await?,
            folder,
            front_end,
            replicas: servers.control().clone(),
            prometheus: prometheus.url().trim_start_matches("http://").to_owned(),
            operator: metrics,
            _parts: Parts::Processes {
                programs: vec![load, front, operator],
                servers,
                prometheus: Box::new(prometheus),
                plane: Box::new(plane),
            },
        })
    }
}
