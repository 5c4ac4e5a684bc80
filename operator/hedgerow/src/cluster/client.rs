//! Clients of the API server.

use std::time::Duration;

use kube::{Client, Config};

/// How long a watch may last. Load balancers drop connections that are idle for 240 s without a word; a watch that ends
/// itself before is simply begun again.
pub(super) const WATCH_SECONDS: u32 = 200;

/// A read that is silent for longer than this is given up: kube waits for ever. Longer than a quiet watch lasts.
const READ_TIMEOUT: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 10);

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The longest that one write may take, from the check of the fence to the answer.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Two clients of the same API server, with different habits.
#[derive(Clone)]
pub struct Clients {
    /// For lists and watches: retries what the server asks to retry.
    pub reads: Client,
    /// For writes, the lease, and the reads that decide a write: never retries by itself, since a retry would come after
    /// the check of the fence (kube's default is up to 15 retries, with waits of up to 1000 s).
    pub writes: Client,
}

impl Clients {
    /// Clients for the cluster that the environment names: `KUBECONFIG`, `~/.kube/config`, or the pod's own.
    ///
    /// # Errors
    ///
    /// When there is no such configuration, or it cannot be used.
    pub async fn infer() -> kube::Result<Self> {
        Self::new(Config::infer().await.map_err(kube::Error::InferConfig)?)
    }

    /// Clients for `config`.
    ///
    /// # Errors
    ///
    /// When `config` cannot be used: certificates that cannot be read, for instance.
    pub fn new(config: Config) -> kube::Result<Self> {
        let mut reads = config;
        reads.connect_timeout = Some(CONNECT_TIMEOUT);
        reads.read_timeout = Some(READ_TIMEOUT);
        reads.reset_reader_on_write = true;

        let mut writes = reads.clone();
        writes.default_retry = false;
        // Beside the timeout of each write: a connection that is dead must not be handed to the next one.
        writes.read_timeout = Some(WRITE_TIMEOUT);
        writes.write_timeout = Some(WRITE_TIMEOUT);
        Ok(Self {
            reads: Client::try_from(reads)?,
            writes: Client::try_from(writes)?,
        })
    }
}
