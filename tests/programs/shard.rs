//! A server of gRPC that answers as slowly as it is told.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Buf, Bytes, BytesMut};
use h2::RecvStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use tokio::net::{TcpListener, TcpStream};

use crate::attempts::Attempts;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const OK: HeaderValue = HeaderValue::from_static("0");
const UNAVAILABLE: HeaderValue = HeaderValue::from_static("14");

/// Starts the shard `host` on loopback, which notes in `attempts` what it sees. It ends with the test's runtime.
///
/// A query is the name of a call, a space, and what the attempts of it take (see [`Attempts::work`]); the answer is that name.
pub(crate) async fn shard(host: usize, attempts: &Attempts) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let attempts = attempts.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(serve(socket, host, attempts.clone()));
        }
    });
    address
}

async fn serve(socket: TcpStream, host: usize, attempts: Attempts) -> Result<(), h2::Error> {
    let mut connection = h2::server::handshake(socket).await?;
    while let Some(request) = connection.accept().await {
        let (request, reply) = request?;
        tokio::spawn(answer(request, reply, host, attempts.clone()));
    }
    Ok(())
}

async fn answer(
    request: Request<RecvStream>,
    mut reply: SendResponse<Bytes>,
    host: usize,
    attempts: Attempts,
) -> Result<(), h2::Error> {
    let previous = request.headers().get("grpc-previous-rpc-attempts");
    let previous = previous.map(|count| count.to_str().unwrap().to_owned());
    let query = message(request.into_body()).await?;
    let (call, takes) = query.split_once(' ').unwrap();
    let succeeds = tokio::select! {
        succeeds = attempts.work(host, call, takes, previous) => succeeds,
        _ = poll_fn(|context| reply.poll_reset(context)) => return Ok(()),
    };
    let head = Response::builder().header("content-type", "application/grpc");
    if succeeds {
        let mut body = reply.send_response(head.body(()).unwrap(), false)?;
        body.send_data(framed(call), false)?;
        body.send_trailers(HeaderMap::from_iter([(STATUS, OK)]))
    } else {
        // A failure alone is said in the head: a client that has seen a head before would be committed to this attempt.
        let head = head.header(STATUS, UNAVAILABLE).body(()).unwrap();
        reply.send_response(head, true).map(drop)
    }
}

/// The one message of a body: a byte for compression, four for the length, then the message.
async fn message(mut body: RecvStream) -> Result<String, h2::Error> {
    let mut bytes = BytesMut::new();
    while let Some(data) = body.data().await {
        let data = data?;
        body.flow_control().release_capacity(data.len())?;
        bytes.extend_from_slice(&data);
    }
    bytes.advance(5);
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

fn framed(message: &str) -> Bytes {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend(message.as_bytes());
    bytes.into()
}
