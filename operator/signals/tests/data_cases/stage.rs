//! The one Prometheus of this test binary, and the samples in it.

use tokio::sync::OnceCell;

use crate::support::feed::Feed;
use crate::support::servers::Server;
use crate::{arithmetic, hedging, native, quantiles, selection};

/// Its URL.
pub(crate) async fn url() -> &'static str {
    static RUNNING: OnceCell<Server> = OnceCell::const_new();
    let server = RUNNING
        .get_or_init(async || {
            let mut feed = Feed::new();
            for samples in [
                arithmetic::samples,
                hedging::samples,
                native::samples,
                quantiles::samples,
                selection::samples,
            ] {
                samples(feed.throughout());
            }
            Server::prometheus(&[]).fed(feed).await
        })
        .await;
    &server.url
}
