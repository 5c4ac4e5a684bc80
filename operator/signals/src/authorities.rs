//! Whom a source is trusted by when its settings do not say.

use reqwest::{Certificate, ClientBuilder};

/// Trusts the system's authorities, or Mozilla's where the system has none: an image that holds nothing but the operator has
/// none, and without any no client can be made, not even for a URL that needs no TLS.
pub(crate) fn trust_the_usual(builder: ClientBuilder) -> ClientBuilder {
    if rustls_native_certs::load_native_certs().certs.is_empty() {
        builder.tls_certs_only(mozilla())
    } else {
        builder
    }
}

/// The authorities that Mozilla trusts, as of this build.
fn mozilla() -> Vec<Certificate> {
    let known = webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter();
    known
        .filter_map(|authority| Certificate::from_der(authority).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_can_be_made_where_the_system_has_no_authorities() {
        let authorities = mozilla();
        assert_eq!(authorities.len(), webpki_root_certs::TLS_SERVER_ROOT_CERTS.len());
        assert!(!authorities.is_empty());
        // As `main` does before anything else.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = reqwest::Client::builder().tls_certs_only(authorities);
        assert!(builder.build().is_ok());
    }
}
