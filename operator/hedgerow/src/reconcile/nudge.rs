//! Has pods look at documents that tell their clients to hedge less.

use std::collections::BTreeMap;

use hedgerow_api::Output;

use super::Reconciler;
use crate::cluster::{NamespacedName, Nudge, PolicyEntry, Published};

impl Reconciler {
    /// Asks for the pods of the outputs in a ConfigMap by which clients hedge less now.
    pub(super) fn nudge(&self, entry: &PolicyEntry, name: &NamespacedName, published: &Published) {
        let Some(version) = published.version.as_ref().filter(|_| published.safer) else {
            return;
        };
        let here = outputs(entry).filter(|output| *output.config_map == *name.name);
        for pods in here.filter_map(pods) {
            self.cluster.nudger.ask(Nudge {
                policy: entry.key.clone(),
                config_map: name.clone(),
                version: version.clone(),
                pods,
            });
        }
    }

    /// Why the pods that a policy names are not nudged, as far as is known.
    pub(super) fn not_nudged(&self, entry: &PolicyEntry) -> Option<String> {
        let asks = outputs(entry).any(|output| pods(output).is_some());
        asks.then(|| self.cluster.nudger.refusal(&entry.key)).flatten()
    }
}

fn outputs(entry: &PolicyEntry) -> impl Iterator<Item = &Output> {
    entry.policy.iter().flat_map(|policy| &policy.spec.publish)
}

/// The labels of the pods that an output names.
fn pods(output: &Output) -> Option<BTreeMap<String, String>> {
    let named = output.nudge_pods.as_ref()?;
    let labels = named.match_labels.0.iter();
    Some(
        labels
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .collect(),
    )
}
