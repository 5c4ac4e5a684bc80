//! Who one is to the API server.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use rand::RngExt;
use serde_json::Value;

/// A bearer token and a kubeconfig that holds it.
#[derive(Clone, Debug)]
pub struct Credentials {
    url: String,
    authority: PathBuf,
    token: String,
    kubeconfig: PathBuf,
}

impl Credentials {
    /// Writes what the API server needs to know its users: a token for the administrator (new in every run: other people
    /// of this machine can reach the port, too) and the keys of ServiceAccount tokens.
    pub(super) fn prepare(folder: &Path, url: &str) -> Result<Self> {
        let token = format!("{:032x}", rand::rng().random::<u128>());
        fs::write(
            folder.join("tokens.csv"),
            format!("{token},admin,admin,\"system:masters\"\n"),
        )?;
        let key = rcgen::KeyPair::generate()?;
        fs::write(folder.join("sa.key"), key.serialize_pem())?;
        fs::write(folder.join("sa.pub"), key.public_key_pem())?;
        Ok(Self {
            url: url.to_owned(),
            authority: folder.join("certs/apiserver.crt"),
            token,
            kubeconfig: folder.join("admin.kubeconfig"),
        })
    }

    /// A ServiceAccount's, by a token that the API server issues and that holds for an hour. The kubeconfig is written to
    /// `kubeconfig`.
    ///
    /// # Errors
    /// When the ServiceAccount does not exist.
    pub async fn of_service_account(&self, namespace: &str, name: &str, kubeconfig: PathBuf) -> Result<Self> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(3600),
                ..Default::default()
            }),
            ..Default::default()
        };
        let issued = accounts
            .create_token_request(name, &Default::default(), &request)
            .await
            .with_context(|| format!("no token for ServiceAccount {namespace}/{name}"))?;
        let token = issued
            .status
            .and_then(|status| status.token)
            .context("the issued token is missing")?;
        let credentials = Self {
            token,
            kubeconfig,
            ..self.clone()
        };
        credentials.write_kubeconfig()?;
        Ok(credentials)
    }

    /// The same, for another way to the API server: the kubeconfigs that are written from here on name `url`.
    #[must_use]
    pub(crate) fn by_way_of(&self, url: String) -> Self {
        Self { url, ..self.clone() }
    }

    /// What the audit log calls the credential ([`AuditEvent::credential`](crate::AuditEvent::credential)).
    ///
    /// # Errors
    /// When the token is not one of a ServiceAccount.
    pub(crate) fn audited_as(&self) -> Result<String> {
        let claims = self.token.split('.').nth(1).context("the token is no JWT")?;
        let claims: Value = serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(claims)?)?;
        let id = claims["jti"].as_str().context("the token has no id")?;
        Ok(format!("JTI={id}"))
    }

    /// The kubeconfig file.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// A client, for the async runtime that calls this.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.kubeconfig).await
    }

    /// The API server makes its own certificate, which is its authority as well; until then there is none to write.
    pub(super) fn write_kubeconfig(&self) -> Result<()> {
        fs::metadata(&self.authority).context("the API server has no certificate yet")?;
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "hedgerow",
            "clusters": [{ "name": "hedgerow",
                "cluster": { "server": self.url, "certificate-authority": self.authority } }],
            "users": [{ "name": "hedgerow", "user": { "token": self.token } }],
            "contexts": [{ "name": "hedgerow", "context": { "cluster": "hedgerow", "user": "hedgerow" } }],
        });
        let path = &self.kubeconfig;
        fs::write(path, kubeconfig.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A client of the user in a kubeconfig.
pub(crate) async fn client_of(kubeconfig: &Path) -> Result<Client> {
    crate::tls::install();
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.proxy_url = None;
    Ok(Client::try_from(config)?)
}
