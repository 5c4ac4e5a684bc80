//! The TLS provider.

/// rustls wants one chosen before the first client is built; choosing again changes nothing.
pub(crate) fn install() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
