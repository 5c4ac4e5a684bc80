//! How the watches go, as they stand at the moment of a scrape.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;

use super::{Labels, gauges, sample};
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
        let watched: Vec<(Labels, Watched)> = self
            .caches
            .watched()
            .into_iter()
            .map(|watch| (labels(&watch), watch))
            .collect();
        let fails = |watch: &Watched| f64::from(u8::from(watch.error.is_some()));
        gauges(
            &mut encoder,
            "watch_failing",
            "",
            "1 while a watch of the API server fails, else 0. While that of hedgerow-off ConfigMaps fails, an emergency \
             stop does not act.",
            watched.iter().map(|(labels, watch)| (labels, fails(watch))),
        )?;
        let worked = |watch: &Watched| Some(sample(watch.worked_at?.as_millis()) / 1e3);
        gauges(
            &mut encoder,
            "watch_last_success_timestamp",
            "seconds",
            "When the API server last answered a watch; about once a minute while all is well.",
            watched
                .iter()
                .filter_map(|(labels, watch)| Some((labels, worked(watch)?))),
        )
    }
}

/// The scope is no label `namespace`: where Prometheus keeps our labels, an empty one would become the operator's own.
fn labels(watch: &Watched) -> Labels {
    let scope = if watch.namespace.is_empty() {
        "cluster"
    } else {
        &watch.namespace
    };
    vec![("watch", watch.what.to_owned()), ("scope", scope.to_owned())]
}
