//! The saturation signals that Hedgerow knows.

use super::{KnownValue, SignalPreset};

/// The search pool is where a search or a get waits.
const SEARCH_POOL: &[(&str, &str)] = &[("type", "search")];

const ALL_CLUSTERS: &str =
    "All clusters that the source scrapes are in it: name one in matchLabels, as {cluster: kb}.";

/// Every preset of a saturation signal.
pub static SIGNALS: &[SignalPreset] = &[
    SignalPreset {
        name: "ElasticsearchQueue",
        about: "searches that wait in the queue of a node, by elasticsearch_exporter; OpenSearch alike",
        value: KnownValue::Gauge("elasticsearch_thread_pool_queue_count"),
        labels: SEARCH_POOL,
        present: &[],
        off_above: "100",
        traps: &[
            "A queue is seen at the moment of a scrape only: have ElasticsearchRejected beside it.",
            ALL_CLUSTERS,
        ],
    },
    SignalPreset {
        name: "ElasticsearchRejected",
        about: "searches that were rejected, as a share of those completed, by elasticsearch_exporter; OpenSearch alike",
        value: KnownValue::Share {
            of: "elasticsearch_thread_pool_rejected_count",
            per: "elasticsearch_thread_pool_completed_count",
        },
        labels: SEARCH_POOL,
        present: &[],
        off_above: "0.01",
        traps: &[ALL_CLUSTERS],
    },
    SignalPreset {
        name: "CpuThrottling",
        about: "the share of periods in which a container was kept from the CPU by its limit, by cAdvisor in the kubelet",
        value: KnownValue::Share {
            of: "container_cpu_cfs_throttled_periods_total",
            per: "container_cpu_cfs_periods_total",
        },
        labels: &[],
        present: &["container"],
        off_above: "0.25",
        traps: &[
            "A container without a CPU limit has no such series: the signal is then unknown, and hedging goes off.",
            "All containers of the cluster are in it: name namespace and container in matchLabels.",
        ],
    },
];
