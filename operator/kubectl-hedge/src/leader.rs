//! The leading replica: who it is, what it says of a policy, and what it would decide of another.

use std::time::Duration;

use hedgerow::cluster::PolicyKey;
use hedgerow::exit::Failure;
use hedgerow::plan::Plan;
use http::request::Builder;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::cli::LeaderArgs;
use crate::session::{Session, say};

/// How long it may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// And for a plan, for which it asks its sources.
const PLAN_WITHIN: Duration = Duration::from_secs(45);

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

    /// Who it was, and for how long nothing has been heard of it.
    pub(crate) fn last_known(&self) -> String {
        let (pod, silent) = (&self.pod, self.silent.as_secs());
        format!("{pod} held the lease last, and has been silent for {silent} s")
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
        Ok(leader) if !leader.is_alive() => Some(leader.last_known()),
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
    let request = Request::get(format!("/explain/{}/{}", policy.namespace, policy.name));
    let (answer, from) = ask(session, args, request, String::new(), ANSWER_WITHIN).await?;
    if !answer.status.is_success() {
        return Err(format!("{from}: {}", answer.told()));
    }
    Ok((answer.read()?, from))
}

/// What the leader would decide of the policies in a text, by its own sources, and how it was reached.
pub(crate) async fn plan(
    session: &Session,
    args: &LeaderArgs,
    text: String,
) -> Result<(Plan, String), Failure> {
    let unreachable = |why: String| {
        let remedy = "plan without it by --prometheus URL or --config FILE";
        Failure::unreachable(format!("the operator cannot be asked: {why}; {remedy}"))
    };
    let request = Request::post(format!("/plan?namespace={}", session.namespace))
        .header(header::CONTENT_TYPE, hedgerow::plan::YAML);
    let asked = ask(session, args, request, text, PLAN_WITHIN).await;
    let (answer, from) = asked.map_err(unreachable)?;
    match answer.status {
        StatusCode::OK => Ok((answer.read().map_err(unreachable)?, from)),
        StatusCode::UNPROCESSABLE_ENTITY | StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE => {
            Err(Failure::invalid(answer.told()))
        }
        StatusCode::NOT_FOUND => Err(unreachable(format!("{from} is of a version that makes no plans"))),
        _ => Err(unreachable(format!("{from}: {}", answer.told()))),
    }
}

/// What came back.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl Answer {
    fn told(&self) -> String {
        String::from_utf8_lossy(&self.body).trim().to_owned()
    }

    fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        serde_json::from_slice(&self.body).map_err(|why| why.to_string())
    }
}

/// Asks the leader, and says how it was reached.
async fn ask(
    session: &Session,
    args: &LeaderArgs,
    request: Builder,
    body: String,
    within: Duration,
) -> Result<(Answer, String), String> {
    let request = request
        .header(header::HOST, "localhost")
        .body(Full::new(Bytes::from(body)))
        .map_err(|why| why.to_string())?;
    let asked = async {
        if let Some(url) = &args.operator_url {
            let stream = connect(url).await?;
            return Ok((send(stream, request).await?, format!("the operator at {url}")));
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
        let answer = send(stream, request)
            .await
            .map_err(|why| format!("{pod}: {why}"))?;
        Ok((answer, format!("the leading replica, {pod}")))
    };
    timeout(within, asked)
        .await
        .unwrap_or_else(|_| Err(format!("it does not answer within {} s", within.as_secs())))
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

async fn send(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> Result<Answer, String> {
    let fault = |why: hyper::Error| why.to_string();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(fault)?;
    let driven = tokio::spawn(connection);
    let answer = sender.send_request(request).await.map_err(fault)?;
    let status = answer.status();
    let body = answer.into_body().collect().await.map_err(fault)?.to_bytes();
    driven.abort();
    Ok(Answer { status, body })
}
