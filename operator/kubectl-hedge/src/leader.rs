//! The leading replica: who it is, and what it says of a policy.

use std::time::Duration;

use hedgerow::cluster::PolicyKey;
use http::{Request, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::LeaderArgs;
use crate::session::{Session, say};

/// How long it may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Who leads, as its Lease says.
#[derive(Clone, Debug)]
pub(crate) struct Leader {
    pub(crate) namespace: String,
    /// The pod, or the host of a process that is none.
    pub(crate) pod: String,
    /// Since its last sign of life, and how long others wait for one.
    pub(crate) silent: Duration,
    pub(crate) patience: Duration,
}

impl Leader {
    /// Whether it may still be taken for alive.
    pub(crate) fn is_alive(&self) -> bool {
        self.silent <= self.patience
    }
}

/// Why no leader is known.
#[derive(Clone, Debug)]
pub(crate) struct NoLeader {
    /// It is sure that no replica runs; otherwise nobody can tell.
    pub(crate) nobody_leads: bool,
    /// Why, and what to do.
    pub(crate) text: String,
}

impl NoLeader {
    fn unknown(text: impl Into<String>) -> Self {
        Self {
            nobody_leads: false,
            text: text.into(),
        }
    }
}

/// Finds the leader. An error says why nobody is known to lead, and what to do.
pub(crate) async fn find(session: &Session) -> Result<Leader, NoLeader> {
    let home = session.home().await;
    let namespace = home
        .one()
        .map_err(|failure| NoLeader::unknown(failure.to_string()))?;
    let leases: Api<Lease> = Api::namespaced(session.client.clone(), namespace);
    let name = format!("Lease {namespace}/{}", session.lease);
    let lease = leases
        .get_opt(&session.lease)
        .await
        .map_err(|why| NoLeader::unknown(format!("{name}: {}", say(&why))))?;
    let Some(spec) = lease.and_then(|lease| lease.spec) else {
        return Err(NoLeader::unknown(format!(
            "there is no {name}: the operator has not run there, runs without leader election, or is elsewhere \
             (--operator-namespace, --lease)"
        )));
    };
    let Some(holder) = spec.holder_identity.filter(|holder| !holder.is_empty()) else {
        return Err(NoLeader {
            nobody_leads: true,
            text: format!("nobody holds {name}: no replica runs"),
        });
    };
    // The holder is the pod's name and something that no second process has.
    let pod = holder
        .rsplit_once('_')
        .map_or(holder.as_str(), |(pod, _)| pod)
        .to_owned();
    let renewed = spec.renew_time.map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let silent = Timestamp::now().duration_since(renewed);
    Ok(Leader {
        namespace: namespace.to_owned(),
        pod,
        silent: Duration::try_from(silent).unwrap_or_default(),
        patience: Duration::from_secs(
            spec.lease_duration_seconds
                .and_then(|s| s.try_into().ok())
                .unwrap_or(15),
        ),
    })
}

/// That no replica is at work, and since when; `None` when one is, or where nobody can tell.
pub(crate) async fn silence(session: &Session) -> Option<String> {
    match find(session).await {
        Ok(leader) if !leader.is_alive() => Some(format!(
            "{} held the lease last, and has been silent for {} s",
            leader.pod,
            leader.silent.as_secs()
        )),
        Err(none) if none.nobody_leads => Some(none.text),
        _ => None,
    }
}

/// What the leader says of a policy, and how it was reached. An error says why it could not be asked.
pub(crate) async fn explanation(
    session: &Session,
    args: &LeaderArgs,
    policy: &PolicyKey,
) -> Result<(Value, String), String> {
    let path = format!("/explain/{}/{}", policy.namespace, policy.name);
    let asked = async {
        if let Some(url) = &args.operator_url {
            let stream = connect(url).await?;
            return Ok((get(stream, &path).await?, format!("the operator at {url}")));
        }
        let leader = find(session).await.map_err(|why| why.text)?;
        let pods: Api<Pod> = Api::namespaced(session.client.clone(), &leader.namespace);
        let pod = format!("pod {}/{}", leader.namespace, leader.pod);
        let mut forward = pods
            .portforward(&leader.pod, &[args.operator_port])
            .await
            .map_err(|why| format!("a port-forward to {pod} fails: {}", say(&why)))?;
        let stream = forward
            .take_stream(args.operator_port)
            .ok_or_else(|| format!("a port-forward to {pod} gives no stream"))?;
        let answer = get(stream, &path).await.map_err(|why| format!("{pod}: {why}"))?;
        Ok((answer, format!("the leading replica, {pod}")))
    };
    timeout(ANSWER_WITHIN, asked)
        .await
        .unwrap_or_else(|_| Err(format!("it does not answer within {} s", ANSWER_WITHIN.as_secs())))
}

async fn connect(url: &Uri) -> Result<TcpStream, String> {
    let (Some("http"), Some(host)) = (url.scheme_str(), url.host()) else {
        return Err(format!(
            "--operator-url {url}: begin it with http://, as in http://127.0.0.1:8081"
        ));
    };
    let address = (host.trim_matches(['[', ']']), url.port_u16().unwrap_or(80));
    TcpStream::connect(address)
        .await
        .map_err(|why| format!("{url}: {why}"))
}

async fn get(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    path: &str,
) -> Result<Value, String> {
    let fault = |why: &dyn std::fmt::Display| why.to_string();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|why| fault(&why))?;
    let driven = tokio::spawn(connection);
    let request = Request::get(path)
        .header(header::HOST, "localhost")
        .body(Empty::<Bytes>::new())
        .map_err(|why| fault(&why))?;
    let answer = sender.send_request(request).await.map_err(|why| fault(&why))?;
    let status = answer.status();
    let body = answer
        .into_body()
        .collect()
        .await
        .map_err(|why| fault(&why))?
        .to_bytes();
    driven.abort();
    if status.is_success() {
        serde_json::from_slice(&body).map_err(|why| fault(&why))
    } else {
        Err(String::from_utf8_lossy(&body).trim().to_owned())
    }
}
