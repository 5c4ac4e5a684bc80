//! The files that say who we are and whom we trust; read again whenever requests are sent, so that rotation needs no
//! restart.

use std::path::Path;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use hedgerow_tuner::UnknownReason;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Certificate, ClientBuilder, Identity};

use crate::authorities::trust_the_usual;
use crate::failure::Failure;
use crate::{Authentication, SourceSettings};

/// The content of all files that a source's client is made from. Two that are equal make the same client.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Credentials {
    authority: Option<Vec<u8>>,
    secret: Vec<u8>,
    key: Vec<u8>,
}

impl Credentials {
    /// Reads the files of a source.
    pub(crate) async fn read(settings: &SourceSettings) -> Result<Self, Failure> {
        let authority = match &settings.ca_file {
            Some(file) => Some(content(file).await?),
            None => None,
        };
        let (secret, key) = match &settings.authentication {
            Authentication::None => (Vec::new(), Vec::new()),
            Authentication::Bearer { token_file } => (content(token_file).await?, Vec::new()),
            Authentication::Basic { password_file, .. } => (content(password_file).await?, Vec::new()),
            Authentication::Mtls { cert_file, key_file } => {
                (content(cert_file).await?, content(key_file).await?)
            }
        };
        Ok(Self {
            authority,
            secret,
            key,
        })
    }

    /// A client that trusts and authenticates as these files say.
    pub(crate) fn apply(
        &self,
        settings: &SourceSettings,
        mut builder: ClientBuilder,
    ) -> Result<ClientBuilder, Failure> {
        let mut headers = HeaderMap::new();
        for (name, value) in &settings.headers {
            let name = HeaderName::try_from(name)
                .map_err(|_| unusable(format!("the source's header {name:?} is not a header name")))?;
            let value = HeaderValue::try_from(value)
                .map_err(|_| unusable(format!("the value of the source's header {name} cannot be sent")))?;
            headers.insert(name, value);
        }
        if let Some(authority) = &self.authority {
            let authorities = Certificate::from_pem_bundle(authority)
                .map_err(|_| unusable("the source's CA file holds no PEM certificates".to_owned()))?;
            builder = builder.tls_certs_only(authorities);
        } else {
            builder = trust_the_usual(builder);
        }
        match &settings.authentication {
            Authentication::None => {}
            Authentication::Bearer { token_file } => {
                let token = self.secret_text(token_file)?;
                headers.insert(
                    AUTHORIZATION,
                    secret_header(format!("Bearer {token}"), token_file)?,
                );
            }
            Authentication::Basic {
                username,
                password_file,
            } => {
                let pair = format!("{username}:{}", self.secret_text(password_file)?);
                let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
                headers.insert(AUTHORIZATION, secret_header(value, password_file)?);
            }
            Authentication::Mtls { cert_file, .. } => {
                let mut pem = self.secret.clone();
                pem.push(b'\n');
                pem.extend_from_slice(&self.key);
                let identity = Identity::from_pem(&pem).map_err(|_| {
                    unusable(format!(
                        "{} and its key file are not a PEM certificate and key",
                        cert_file.display()
                    ))
                })?;
                builder = builder.identity(identity);
            }
        }
        Ok(builder.default_headers(headers))
    }

    fn secret_text(&self, file: &Path) -> Result<&str, Failure> {
        std::str::from_utf8(&self.secret)
            .map(str::trim_end)
            .map_err(|_| unusable(format!("{} is not text", file.display())))
    }
}

fn secret_header(value: String, file: &Path) -> Result<HeaderValue, Failure> {
    let mut header = HeaderValue::try_from(value).map_err(|_| {
        unusable(format!(
            "the content of {} cannot be sent in a header",
            file.display()
        ))
    })?;
    header.set_sensitive(true);
    Ok(header)
}

async fn content(file: &Path) -> Result<Vec<u8>, Failure> {
    tokio::fs::read(file)
        .await
        .map_err(|error| unusable(format!("{} cannot be read: {error}", file.display())))
}

fn unusable(message: String) -> Failure {
    Failure::new(
        UnknownReason::Unauthorized,
        format!("{message}; mend the source's configuration"),
    )
}
