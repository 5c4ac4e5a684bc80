//! How a source is reached, from the administrator's config file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How a source is reached.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceSettings {
    /// Its name, as policies say it.
    pub name: String,
    /// The base URL; a path in it is kept (`/api/prom`).
    pub url: String,
    /// A PEM file of certificate authorities to trust instead of the system's.
    pub ca_file: Option<PathBuf>,
    /// How we authenticate.
    pub authentication: Authentication,
    /// Headers sent with each request (a tenant).
    pub headers: BTreeMap<String, String>,
    /// Queries are evaluated this long ago, where the newest points are incomplete.
    pub offset: Duration,
    /// The label that tells the members of an HA pair apart; one of them is read.
    pub replica_label: Option<String>,
    /// Requests in flight at once; from 2 up, one of them is kept for saturation signals.
    pub concurrency: usize,
    /// How long one request may take.
    pub timeout: Duration,
    /// How large an answer may be, in bytes.
    pub max_body_bytes: usize,
}

/// How we authenticate. Files are read again when they change.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Authentication {
    /// Not at all.
    #[default]
    None,
    /// A bearer token.
    Bearer {
        /// File that holds the token.
        token_file: PathBuf,
    },
    /// User name and password.
    Basic {
        /// The user.
        username: String,
        /// File that holds the password.
        password_file: PathBuf,
    },
    /// A client certificate.
    Mtls {
        /// PEM file of the certificate chain.
        cert_file: PathBuf,
        /// PEM file of the key.
        key_file: PathBuf,
    },
}
