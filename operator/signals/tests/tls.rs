//! Who is trusted, and who we are, over TLS.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail as tests do"
)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hedgerow_signals::{Authentication, SourceSettings};
use hedgerow_tuner::UnknownReason;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use support::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A certificate authority.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: rcgen::Certificate,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            issuer: Issuer::new(params, key),
            certificate,
        }
    }

    fn issue(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes a client certificate and its key to two files.
    fn write_client(&self, cert_file: &Path, key_file: &Path) {
        let (certificate, key) = self.issue("hedgerow");
        std::fs::write(cert_file, certificate.pem()).unwrap();
        std::fs::write(key_file, key.serialize_pem()).unwrap();
    }
}

/// A server on `localhost` that demands a client certificate of `clients` and answers every request with nothing.
async fn serve(server: &Authority, clients: &Authority) -> String {
    // It fails when another test was first.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut roots = RootCertStore::empty();
    roots.add(clients.certificate.der().clone()).unwrap();
    let (certificate, key) = server.issue("localhost");
    let config = rustls::ServerConfig::builder()
        .with_client_cert_verifier(WebPkiClientVerifier::builder(Arc::new(roots)).build().unwrap())
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::Pkcs8(key.serialize_der().into()),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else {
                    return;
                };
                let _ = stream.read(&mut [0; 8192]).await;
                let body = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
                let head = format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all((head + body).as_bytes()).await;
                let _ = stream.shutdown().await;
            });
        }
    });
    format!("https://localhost:{port}")
}

struct Files {
    _folder: tempfile::TempDir,
    authority: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

fn files() -> Files {
    let folder = tempfile::tempdir().unwrap();
    let file = |name| folder.path().join(name);
    Files {
        authority: file("ca.crt"),
        certificate: file("tls.crt"),
        key: file("tls.key"),
        _folder: folder,
    }
}

fn mutual(url: &str, files: &Files) -> SourceSettings {
    SourceSettings {
        ca_file: Some(files.authority.clone()),
        authentication: Authentication::Mtls {
            cert_file: files.certificate.clone(),
            key_file: files.key.clone(),
        },
        ..settings(url)
    }
}

#[tokio::test]
async fn a_rotated_client_certificate_is_used_without_a_restart() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let url = serve(&trusted, &trusted).await;
    let files = files();
    std::fs::write(&files.authority, trusted.certificate.pem()).unwrap();
    trusted.write_client(&files.certificate, &files.key);
    let source = source_with(mutual(&url, &files));
    // Nothing is there, which only an accepted connection can tell.
    let (reason, message) = signal_reason(&read_one(&source, gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::MetricNotFound, "{message}");
    other.write_client(&files.certificate, &files.key);
    let (reason, message) = signal_reason(&read_one(&source, gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::Unavailable, "{message}");
}

#[tokio::test]
async fn a_server_of_another_authority_is_not_believed() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let url = serve(&other, &other).await;
    let files = files();
    std::fs::write(&files.authority, trusted.certificate.pem()).unwrap();
    other.write_client(&files.certificate, &files.key);
    let (reason, message) =
        signal_reason(&read_one(&source_with(mutual(&url, &files)), gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::Unavailable);
    assert!(message.contains("certificate"), "{message}");
}

#[tokio::test]
async fn files_that_hold_no_certificate_are_named() {
    let files = files();
    for file in [&files.authority, &files.certificate, &files.key] {
        std::fs::write(file, "nothing").unwrap();
    }
    let mut bad = mutual("https://localhost:1", &files);
    bad.ca_file = None;
    let (reason, message) = signal_reason(&read_one(&source_with(bad), gauge("g", &[])).await);
    assert_eq!(reason, UnknownReason::Unauthorized);
    assert!(message.contains("tls.crt"), "{message}");
}
