//! HTTP to what runs on loopback.

use std::time::Duration;

use anyhow::Result;

/// A client that asks the host itself, whatever proxy the environment names.
///
/// # Errors
/// When it cannot be made.
pub fn http_client(timeout: Duration) -> Result<reqwest::Client> {
    crate::tls::install();
    Ok(reqwest::Client::builder().no_proxy().timeout(timeout).build()?)
}
