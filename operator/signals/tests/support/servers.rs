//! Real servers with Prometheus' API that take samples by remote write.

use std::path::Path;

use super::feed::Feed;
use super::process::{Running, folder, free_port, parts, run};

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    /// Where it is queried.
    pub(crate) url: String,
    /// Where samples are written to.
    write: String,
    _running: Vec<Running>,
}

impl Server {
    /// Writes samples to it.
    pub(crate) async fn fed(self, feed: Feed) -> Self {
        feed.send(&self.write).await;
        self
    }

    /// Prometheus 3, with these further arguments.
    pub(crate) fn prometheus(arguments: &[&str]) -> Self {
        let [program] = parts(["prometheus"]);
        prometheus(&program, arguments)
    }

    /// Prometheus 2.42 of Debian 12.
    pub(crate) fn old_prometheus() -> Self {
        let [program] = parts(["prometheus-2.42"]);
        prometheus(&program, &["--enable-feature=native-histograms"])
    }

    /// A single `VictoriaMetrics`.
    pub(crate) fn victoria_metrics() -> Self {
        let [program] = parts(["victoria-metrics"]);
        let (folder, port) = (folder(), free_port());
        let listen = format!("-httpListenAddr=127.0.0.1:{port}");
        let running = run(
            &folder,
            &program,
            &["-storageDataPath=data", &listen],
            port,
            "/health",
        );
        let url = format!("http://127.0.0.1:{port}");
        Self {
            write: format!("{url}/api/v1/write"),
            url,
            _running: vec![running],
        }
    }

    /// A Thanos querier before a Prometheus; with `missing`, before a store that is not there too.
    pub(crate) fn thanos(missing: bool) -> Self {
        let [program] = parts(["thanos"]);
        let mut server = Self::prometheus(&[]);
        let (store, port) = (free_port(), free_port());
        let serve = |folder: &Path, port: u16, arguments: &[String]| {
            let http = format!("--http-address=127.0.0.1:{port}");
            let arguments: Vec<&str> = arguments
                .iter()
                .map(String::as_str)
                .chain([http.as_str()])
                .collect();
            run(folder, &program, &arguments, port, "/-/ready")
        };
        let sidecar = [
            "sidecar".to_owned(),
            format!("--prometheus.url={}", server.url),
            format!("--grpc-address=127.0.0.1:{store}"),
        ];
        server._running.insert(0, serve(&folder(), free_port(), &sidecar));
        let mut query = vec![
            "query".to_owned(),
            format!("--endpoint=127.0.0.1:{store}"),
            format!("--grpc-address=127.0.0.1:{}", free_port()),
        ];
        if missing {
            query.push(format!("--endpoint-strict=127.0.0.1:{}", free_port()));
        }
        server._running.insert(0, serve(&folder(), port, &query));
        server.url = format!("http://127.0.0.1:{port}");
        server
    }
}

fn prometheus(program: &Path, arguments: &[&str]) -> Server {
    let (folder, port) = (folder(), free_port());
    std::fs::write(folder.join("rules.yaml"), super::prometheus::RULES).unwrap();
    let own = format!(
        "{{ job_name: self, scrape_interval: 1s, static_configs: [{{ targets: [127.0.0.1:{port}] }}] }}"
    );
    std::fs::write(
        folder.join("prometheus.yaml"),
        format!(
            "global: {{ evaluation_interval: 1s, external_labels: {{ cluster: test }} }}\n\
             rule_files: [rules.yaml]\nscrape_configs: [{own}]\n"
        ),
    )
    .unwrap();
    let address = format!("--web.listen-address=127.0.0.1:{port}");
    let arguments: Vec<&str> = [
        "--config.file=prometheus.yaml",
        "--storage.tsdb.path=data",
        "--web.enable-remote-write-receiver",
        &address,
    ]
    .iter()
    .chain(arguments)
    .copied()
    .collect();
    let running = run(&folder, program, &arguments, port, "/-/ready");
    let url = format!("http://127.0.0.1:{port}");
    Server {
        write: format!("{url}/api/v1/write"),
        url,
        _running: vec![running],
    }
}
