//! An HTTP server before a real one, which answers as a test says: the faults that a network alone does not have.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Result;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::response::Response;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::header::{ACCEPT_ENCODING, CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING};
use http::{HeaderMap, Method, StatusCode, Uri};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A body of a request that is longer than this is not passed on.
const LONGEST_REQUEST: usize = 16 << 20;

/// A way to an HTTP server that a test can break. It serves for as long as this value and the runtime that started it live.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    inner: Arc<Inner>,
    server: AbortHandle,
}

/// What somebody asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub uri: Uri,
    /// The headers.
    pub headers: HeaderMap,
    /// The whole body.
    pub body: Bytes,
}

impl Asked {
    /// Whether it asks the API server for a stream of changes.
    pub fn is_watch(&self) -> bool {
        self.uri.query().is_some_and(|query| query.contains("watch=true"))
    }

    /// Whether it asks for something to be changed.
    pub fn is_write(&self) -> bool {
        !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }
}

/// What is done with a request.
#[derive(Debug)]
pub enum Act {
    /// It is passed on, and so is the answer.
    Pass,
    /// The same, the answer so much later.
    Late(Duration),
    /// It is passed on with this body instead of its own.
    Instead(Bytes),
    /// It is passed on, with this body if there is one, and the headers and the body of the answer are changed.
    Change(Option<Bytes>, fn(HeaderMap, Bytes) -> (HeaderMap, Bytes)),
    /// It is passed on, and the connection breaks after so many bytes of the answer's body.
    BreakOff(usize),
    /// It is answered here: status, headers and body.
    Answer(StatusCode, Vec<(&'static str, String)>, String),
    /// It is answered with JSON that begins well and is so many bytes long.
    Flood(usize),
    /// It is never answered.
    Hang,
}

/// What happens to answers that go on for long, as watches do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    /// They flow.
    Flow,
    /// Those that there are, and new ones, stay open and say nothing any more, for ever.
    Dead,
    /// Those that there are, and new ones, break.
    Cut,
}

type Way = dyn Fn(&Asked) -> Act + Send + Sync;

struct Inner {
    way: Mutex<Arc<Way>>,
    server: Mutex<Option<Server>>,
    streams: watch::Sender<Streams>,
}

#[derive(Clone)]
struct Server {
    url: String,
    http: reqwest::Client,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").finish_non_exhaustive()
    }
}

impl Gate {
    /// A gate that passes everything, on a port that the kernel chooses. It leads nowhere until [`lead_to`](Self::lead_to).
    ///
    /// # Errors
    /// When it cannot listen.
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let inner = Arc::new(Inner {
            way: Mutex::new(Arc::new(|_| Act::Pass)),
            server: Mutex::new(None),
            streams: watch::Sender::new(Streams::Flow),
        });
        let serves = Arc::clone(&inner);
        let router = Router::new().fallback(move |request: Request| {
            let inner = Arc::clone(&serves);
            async move { inner.answer(request).await }
        });
        let server = tokio::spawn(async move { axum::serve(listener, router).await }).abort_handle();
        Ok(Self {
            address,
            inner,
            server,
        })
    }

    /// Leads to the server at `url`; `authority` is the PEM of what vouches for it, for `https`.
    ///
    /// # Errors
    /// When `authority` is no certificate.
    pub fn lead_to(&self, url: &str, authority: Option<&[u8]>) -> Result<()> {
        crate::tls::install();
        let mut http = reqwest::Client::builder().no_proxy();
        if let Some(pem) = authority {
            http = http.tls_certs_only(reqwest::Certificate::from_pem_bundle(pem)?);
        }
        *locked(&self.inner.server) = Some(Server {
            url: url.to_owned(),
            http: http.build()?,
        });
        Ok(())
    }

    /// Where it listens.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on this says what is done with each request.
    pub fn set(&self, way: impl Fn(&Asked) -> Act + Send + Sync + 'static) {
        *locked(&self.inner.way) = Arc::new(way);
    }

    /// From now on this happens to answers that go on for long.
    pub fn set_streams(&self, streams: Streams) {
        self.inner.streams.send_replace(streams);
    }

    /// Passes everything again.
    pub fn heal(&self) {
        self.set(|_| Act::Pass);
        self.set_streams(Streams::Flow);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Inner {
    async fn answer(&self, request: Request) -> Response {
        let (head, body) = request.into_parts();
        let Ok(body) = axum::body::to_bytes(body, LONGEST_REQUEST).await else {
            return said(
                StatusCode::PAYLOAD_TOO_LARGE,
                "the request is too long for the gate",
            );
        };
        let mut asked = Asked {
            method: head.method,
            uri: head.uri,
            headers: head.headers,
            body,
        };
        let way = Arc::clone(&locked(&self.way));
        match way(&asked) {
            Act::Pass => self.pass(&asked).await,
            Act::Late(by) => {
                let answer = self.pass(&asked).await;
                tokio::time::sleep(by).await;
                answer
            }
            Act::Instead(body) => {
                asked.body = body;
                self.pass(&asked).await
            }
            Act::Change(body, change) => {
                asked.body = body.unwrap_or(asked.body);
                let (mut head, body) = self.pass(&asked).await.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                let (headers, body) = change(std::mem::take(&mut head.headers), body);
                head.headers = headers;
                Response::from_parts(head, Body::from(body))
            }
            Act::BreakOff(after) => {
                let (head, body) = self.pass(&asked).await.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap_or_default();
                let begun = stream::iter([Ok(body.slice(..after.min(body.len())))]);
                Response::from_parts(head, Body::from_stream(begun.chain(broken())))
            }
            Act::Answer(status, headers, body) => {
                let mut answer = said(status, &body);
                for (name, value) in headers {
                    if let Ok(value) = value.parse() {
                        answer.headers_mut().insert(name, value);
                    }
                }
                answer
            }
            Act::Flood(length) => flood(length),
            Act::Hang => std::future::pending().await,
        }
    }

    async fn pass(&self, asked: &Asked) -> Response {
        let Some(Server { url, http }) = locked(&self.server).clone() else {
            return said(StatusCode::BAD_GATEWAY, "the gate leads nowhere");
        };
        let mut streams = self.streams.subscribe();
        let is_watch = asked.is_watch();
        if is_watch && *streams.borrow() == Streams::Cut {
            return said(StatusCode::BAD_GATEWAY, "the gate breaks it");
        }
        let mut headers = asked.headers.clone();
        // Those of the connection; and a body that is to be changed must not be compressed.
        for name in [
            HOST,
            CONNECTION,
            CONTENT_LENGTH,
            TRANSFER_ENCODING,
            ACCEPT_ENCODING,
        ] {
            headers.remove(name);
        }
        let request = http
            .request(asked.method.clone(), format!("{url}{}", asked.uri))
            .headers(headers)
            .body(asked.body.clone());
        let answer = match request.send().await {
            Ok(answer) => answer,
            Err(error) => return said(StatusCode::BAD_GATEWAY, &error.to_string()),
        };
        let (status, mut headers) = (answer.status(), answer.headers().clone());
        for name in [CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING] {
            headers.remove(name);
        }
        let pieces = answer.bytes_stream().map_err(std::io::Error::other);
        let body = if is_watch {
            let stopped = async move {
                let changed = streams.wait_for(|streams| *streams != Streams::Flow).await;
                changed.map_or(Streams::Cut, |streams| *streams)
            };
            let ending = stream::once(stopped).flat_map(|streams| match streams {
                Streams::Dead => stream::pending().left_stream(),
                Streams::Flow | Streams::Cut => broken().right_stream(),
            });
            // The first that is known ends the pieces for ever.
            Body::from_stream(until(pieces, ending))
        } else {
            Body::from_stream(pieces)
        };
        let mut response = Response::new(body);
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        response
    }
}

type Piece = std::io::Result<Bytes>;

/// The first stream until the second has something to say or the first ends.
fn until(
    pieces: impl stream::Stream<Item = Piece> + Send + 'static,
    ending: impl stream::Stream<Item = Piece> + Send + 'static,
) -> impl stream::Stream<Item = Piece> + Send + 'static {
    stream::unfold(
        (Box::pin(pieces), Box::pin(ending)),
        |(mut pieces, mut ending)| async move {
            let next = tokio::select! {
                biased;
                end = ending.next() => end,
                piece = pieces.next() => piece,
            };
            next.map(|piece| (piece, (pieces, ending)))
        },
    )
}

fn broken() -> impl stream::Stream<Item = Piece> + Send + 'static {
    stream::iter([Err(std::io::Error::other("broken by the gate"))])
}

fn said(status: StatusCode, text: &str) -> Response {
    let mut response = Response::new(Body::from(text.to_owned()));
    *response.status_mut() = status;
    response
}

fn flood(length: usize) -> Response {
    const BEGINNING: &str = r#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":""#;
    let piece = Bytes::from(vec![b'x'; 64 * 1024]);
    let pieces = stream::iter((0..length / piece.len()).map(move |_| Ok::<_, std::io::Error>(piece.clone())));
    let body = stream::iter([Ok(Bytes::from_static(BEGINNING.as_bytes()))]).chain(pieces);
    let mut response = Response::new(Body::from_stream(body));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
