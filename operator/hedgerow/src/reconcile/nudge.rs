//! Which pods are to look at documents that tell their clients to hedge less.

use std::collections::BTreeMap;

use hedgerow_api::Output;

use super::Reconciler;
use crate::cluster::{NamespacedName, PodLabels, PolicyEntry};

impl Reconciler {
    /// Notes the pods that a policy names. One that cannot be understood names what it named before.
    pub(super) fn note_readers(&self, entry: &PolicyEntry) {
        let Ok(policy) = &entry.policy else { return };
        let mut readers: BTreeMap<NamespacedName, Vec<PodLabels>> = BTreeMap::new();
        for output in &policy.spec.publish {
            let name = NamespacedName::new(&entry.key.namespace, output.config_map.to_string());
            readers.entry(name).or_default().extend(pods(output));
        }
        self.cluster.nudger.note_readers(&entry.key, readers);
    }

    /// Why the pods that a policy names are not nudged, as far as is known.
    pub(super) fn not_nudged(&self, entry: &PolicyEntry) -> Option<String> {
        let mut outputs = entry.policy.iter().flat_map(|policy| &policy.spec.publish);
        let asks = outputs.any(|output| pods(output).is_some());
        asks.then(|| self.cluster.nudger.refusal(&entry.key)).flatten()
    }
}

/// The labels of the pods that an output names.
fn pods(output: &Output) -> Option<PodLabels> {
    let named = output.nudge_pods.as_ref()?;
    let labels = named.match_labels.0.iter();
    Some(
        labels
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
    )
}
