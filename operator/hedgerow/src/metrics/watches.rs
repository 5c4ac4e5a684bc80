//! How the watches go, as they stand at the moment of a scrape.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use crate::cluster::{Caches, Watched};

#[derive(Debug)]
pub(super) struct Watches {
    caches: Caches,
}

impl Watches {
    pub(super) fn new(caches: Caches) -> Self {
        Self { caches }
    }
}

impl Collector for Watches {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let watched = self.caches.watched();

        let help = "1 while a watch of the API server fails, else 0. While that of hedgerow-off ConfigMaps fails, an \
                    emergency stop does not act.";
        let mut failing = encoder.encode_descriptor("watch_failing", help, None, MetricType::Gauge)?;
        for watch in &watched {
            let value = i64::from(watch.error.is_some());
            let labels = labels(watch);
            ConstGauge::new(value).encode(failing.encode_family(&labels)?)?;
        }

        let name = "watch_last_success_timestamp";
        let help = "When the API server last answered a watch; about once a minute while all is well.";
        let mut worked = encoder.encode_descriptor(name, help, Some(&Unit::Seconds), MetricType::Gauge)?;
        for watch in &watched {
            let Some(at) = watch.worked_at else { continue };
            let labels = labels(watch);
            // Exact up to the year 287396.
            #[expect(clippy::cast_precision_loss, reason = "a time of our age")]
            let seconds = at.as_millis() as f64 / 1e3;
            ConstGauge::new(seconds).encode(worked.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn labels(watch: &Watched) -> [(&'static str, &str); 2] {
    [("watch", watch.what), ("namespace", &watch.namespace)]
}
