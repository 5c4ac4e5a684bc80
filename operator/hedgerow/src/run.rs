//! `hedgerow run`: puts the parts together, and ends when one of them does.

mod identity;
mod term;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::FusedFuture;
use hedgerow_signals::Source;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::cli::RunArgs;
use crate::cluster::{
    Caches, Clients, Cluster, ClusterSettings, LeaseSettings, NudgeLimits, Scope, WriteQueue, WriteRate,
    check_served_schema,
};
use crate::exit::{Failure, Outcome};
use crate::heartbeat::Heartbeats;
use crate::index::Index;
use crate::loopback;
use crate::metrics::Metrics;
use crate::page::Page;
use crate::plan::Planner;
use crate::server::{self, Health};
use crate::settings::Settings;
use crate::telemetry;

use identity::Identity;
use term::Term;

/// Writes that were begun end within this, since each has a timeout of its own.
const FINISH: Duration = Duration::from_secs(20);

/// The lease is given back within this: after an attempt that is under way, and with a write of its own.
const RELEASE: Duration = Duration::from_secs(10);

/// An API server that did not answer is asked again after this.
const ASKED_AGAIN: Duration = Duration::from_secs(1);

const NOT_ASKED: &str = "the schema of HedgePolicy: not asked for yet";

/// Runs until SIGTERM.
///
/// # Errors
/// A configuration that is not valid, a cluster that cannot be worked in, and a part that failed.
pub async fn run(args: &RunArgs) -> Outcome {
    let settings = Settings::load(&args.config).map_err(Failure::invalid)?;
    let telemetry =
        telemetry::start(args.log_format, args.otlp_endpoint.as_deref()).map_err(Failure::invalid)?;
    let outcome = operate(settings).await;
    telemetry.end().await;
    outcome
}

async fn operate(settings: Settings) -> Outcome {
    let identity = Identity::find(settings.namespace.as_deref()).map_err(Failure::invalid)?;
    let sources = sources(&settings)?;

    let clients = Clients::infer()
        .await
        .map_err(|why| Failure::failed(cannot_reach(&why)))?;
    let index = Index::default();
    let queue = WriteQueue::new(rate(&settings));
    let caches = Caches::default();
    let metrics = Metrics::new(index.clone(), queue.clone(), caches.clone());
    let on_write = {
        let metrics = metrics.clone();
        Arc::new(move |object, outcome| metrics.wrote(object, outcome))
    };
    let in_cluster = cluster_settings(&settings, &identity);
    let cluster = Arc::new(Cluster::new(clients, in_cluster, caches, on_write));
    metrics.watch_outputs(cluster.outputs.clone());
    let heartbeats = Heartbeats::default();

    let stop = CancellationToken::new();
    let release = CancellationToken::new();
    let (waits_for, waiting) = watch::channel(Some(NOT_ASKED.to_owned()));
    let health = Health {
        heartbeats: heartbeats.clone(),
        caches: cluster.caches.clone(),
        waits_for: waiting,
        metrics: metrics.clone(),
    };
    let mut servers = serve(&settings, &cluster, &index, health, &stop).await?;
    let asked_to_stop = asked_to_stop();
    tokio::pin!(asked_to_stop);
    tokio::select! {
        () = &mut asked_to_stop => return Ok(ExitCode::SUCCESS),
        fits = schema_fits(cluster.reads(), &waits_for) => fits?,
        Some(ended) = servers.join_next() => return Err(Failure::failed(unexpected(ended))),
    }
    let mut watches = cluster.spawn(release.clone());
    waits_for.send_replace(None);
    let term = Term {
        settings: &settings,
        identity: &identity,
        cluster: Arc::clone(&cluster),
        sources,
        index,
        queue,
        metrics,
        heartbeats,
    };
    info!(
        version = env!("CARGO_PKG_VERSION"),
        instance = settings.instance,
        identity = identity.unique,
        "started"
    );

    let lead = term.lead(&stop).fuse();
    tokio::pin!(lead);
    let ended = tokio::select! {
        () = asked_to_stop => Ok(()),
        ended = &mut lead => ended,
        Some(ended) = watches.join_next() => Err(unexpected(ended)),
        Some(ended) = servers.join_next() => Err(unexpected(ended)),
    };
    if let Err(why) = &ended {
        error!(why, "a part of the operator ended");
    }
    // First what is being written, then the lease: nobody else writes before we have ended.
    stop.cancel();
    if !lead.is_terminated() {
        let _ = timeout(FINISH, lead).await;
    }
    release.cancel();
    if settings.lease.is_some() {
        let released = async {
            while let Some(ended) = watches.join_next().await {
                if matches!(ended, Ok("lease")) {
                    break;
                }
            }
        };
        let _ = timeout(RELEASE, released).await;
    }
    info!("stopped");
    ended.map(|()| ExitCode::SUCCESS).map_err(Failure::failed)
}

/// Waits until the API server has said that its HedgePolicy has the fields that this program needs.
async fn schema_fits(reads: &kube::Client, waits_for: &watch::Sender<Option<String>>) -> Result<(), Failure> {
    loop {
        let why = match check_served_schema(reads).await {
            Ok(()) => return Ok(()),
            Err(why) if why.may_pass() => why.to_string(),
            Err(why) => return Err(Failure::failed(why)),
        };
        if waits_for.borrow().as_ref() != Some(&why) {
            warn!(why, "waiting for the API server");
        }
        waits_for.send_replace(Some(why));
        sleep(ASKED_AGAIN).await;
    }
}

/// Waits for SIGTERM or SIGINT.
async fn asked_to_stop() {
    let (term, interrupt) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    match (term, interrupt) {
        (Ok(mut term), Ok(mut interrupt)) => {
            tokio::select! {
                _ = term.recv() => info!("SIGTERM"),
                _ = interrupt.recv() => info!("SIGINT"),
            }
        }
        // Without handlers the signals end the process by themselves.
        _ => std::future::pending().await,
    }
}

async fn serve(
    settings: &Settings,
    cluster: &Cluster,
    index: &Index,
    health: Health,
    stop: &CancellationToken,
) -> Result<JoinSet<&'static str>, Failure> {
    let public = server::listen("listen.address", settings.listen)
        .await
        .map_err(Failure::invalid)?;
    let private = server::listen("listen.explain", settings.listen_loopback)
        .await
        .map_err(Failure::invalid)?;
    let mut servers = JoinSet::new();
    let stopped = stop.clone().cancelled_owned();
    servers.spawn(async move {
        let _ = server::serve_health(public, health, stopped).await;
        "health server"
    });
    if let Some(address) = settings.listen_status_page {
        let listener = server::listen("listen.statusPage", address)
            .await
            .map_err(Failure::invalid)?;
        let caches = cluster.caches.clone();
        let page = Page::new(index.clone(), caches, cluster.acting(), &settings.instance);
        let stopped = stop.clone().cancelled_owned();
        servers.spawn(async move {
            let _ = page.serve(listener, stopped).await;
            "status page"
        });
    }
    let (index, stopped) = (index.clone(), stop.clone().cancelled_owned());
    let planner = Planner::new(settings, cluster.acting());
    servers.spawn(async move {
        let _ = loopback::serve(private, index, planner, stopped).await;
        "explain server"
    });
    Ok(servers)
}

fn sources(settings: &Settings) -> Result<Vec<Arc<Source>>, Failure> {
    let made = settings
        .sources
        .iter()
        .map(|declared| Source::new(declared.settings.clone()).map(Arc::new));
    made.collect::<Result<_, _>>().map_err(Failure::invalid)
}

fn rate(settings: &Settings) -> WriteRate {
    let per_second = f64::from(settings.writes_per_second);
    WriteRate {
        per_second,
        burst: 2.0 * per_second,
    }
}

fn cluster_settings(settings: &Settings, identity: &Identity) -> ClusterSettings {
    ClusterSettings {
        scope: if settings.watch_namespaces.is_empty() {
            Scope::Cluster
        } else {
            Scope::Namespaces(settings.watch_namespaces.clone())
        },
        operator_namespace: identity.namespace.clone(),
        instance: settings.instance.clone(),
        reporter: identity.pod.clone(),
        lease: settings.lease.clone().map(|name| LeaseSettings {
            name,
            identity: identity.unique.clone(),
        }),
        nudge: settings.nudge.then(NudgeLimits::default),
    }
}

fn cannot_reach(why: &kube::Error) -> String {
    format!("no cluster to work in: {why}; set KUBECONFIG, or run in a pod with a service account")
}

/// Every task lives as long as the process: one that ends is a fault, and a panic is one too.
fn unexpected(ended: Result<&'static str, JoinError>) -> String {
    match ended {
        Ok(name) => format!("{name} ended by itself"),
        Err(why) => format!("a task panicked: {why}"),
    }
}
