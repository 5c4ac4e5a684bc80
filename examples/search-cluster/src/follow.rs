//! Where the front end finds its document.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hedgerow_client::{Hedger, HedgerBuilder};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Where the document is; without any of these there is none, and no hedging.
#[derive(Debug, clap::Args)]
pub(crate) struct Document {
    /// Hedge as the document in this key of a mounted ConfigMap says
    #[arg(long, value_name = "DIRECTORY/KEY", conflicts_with = "config_map")]
    document: Option<PathBuf>,
    /// Hedge as the document in a ConfigMap says, watched through the API
    #[arg(long, value_name = "NAMESPACE/NAME/KEY")]
    config_map: Option<String>,
    /// How to reach the API; unset: as a pod does, with its service account
    #[arg(long, value_name = "FILE", requires = "config_map")]
    kubeconfig: Option<PathBuf>,
}

impl Document {
    /// A hedger that follows it.
    pub(crate) async fn follow(&self, builder: HedgerBuilder) -> Result<Hedger> {
        if let Some(path) = &self.document {
            let (Some(directory), Some(key)) = (path.parent(), path.file_name().and_then(|key| key.to_str()))
            else {
                bail!("--document must be DIRECTORY/KEY, is {}", path.display());
            };
            return Ok(builder.follow_directory(directory, key).await);
        }
        let Some(place) = &self.config_map else {
            return Ok(builder.follow_feed().0);
        };
        let parts: Vec<_> = place.split('/').collect();
        let [namespace, name, key] = parts[..] else {
            bail!("--config-map must be NAMESPACE/NAME/KEY, is {place}")
        };
        let client = kubernetes(self.kubeconfig.as_deref()).await?;
        Ok(builder.follow_config_map(client, namespace, name, key))
    }
}

async fn kubernetes(kubeconfig: Option<&Path>) -> Result<kube::Client> {
    // One TLS provider for the process, installed before the first client; an error means that it is there.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = match kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file)?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => Config::incluster()?,
    };
    Ok(kube::Client::try_from(config)?)
}
