//! Writes the ConfigMaps of a policy, and ends those that it no longer names.

use std::collections::{BTreeMap, BTreeSet};

use futures::future::{join, join_all};
use hedgerow_tuner::Timestamp;
use tracing::{debug, info, warn};

use super::Reconciler;
use crate::cluster::{
    Change, DesiredConfigMap, Fault, NamespacedName, Outcome, Owner, PolicyEntry, PublishError, Published,
    Retirement,
};
use crate::index;
use crate::status::Written;
use crate::words;

impl Reconciler {
    /// Publishes what is desired, and notes what became of it.
    ///
    /// All ConfigMaps of a policy at once: one that is not answered neither keeps the others from being switched off, nor
    /// the writer for longer than its own timeout.
    pub(super) async fn publish(
        &self,
        entry: &PolicyEntry,
        desired: &[DesiredConfigMap],
        now: Timestamp,
    ) -> Outcome {
        let publisher = &self.cluster.publisher;
        let owner = Owner {
            policy: entry.key.clone(),
            uid: entry.uid.clone(),
        };
        let named: BTreeSet<&NamespacedName> = desired.iter().map(|config_map| &config_map.name).collect();
        let mut unnamed = self.cluster.outputs.written_for(&entry.uid);
        unnamed.retain(|record| !named.contains(&record.name) && !record.released);
        let (published, retired) = join(
            join_all(
                desired
                    .iter()
                    .map(|config_map| publisher.publish(config_map, now)),
            ),
            join_all(
                unnamed
                    .iter()
                    .map(|record| publisher.retire(&record.name, &owner, now)),
            ),
        )
        .await;

        let before = self.index.handed(&entry.key).unwrap_or_default().1;
        let (mut written, mut retiring) = (BTreeMap::new(), BTreeMap::new());
        let (mut faults, mut joining) = (BTreeMap::new(), BTreeSet::new());
        let (mut again, mut valid_until) = (Vec::new(), Vec::new());
        let mut outcome = Outcome::Done;
        for (config_map, result) in desired.iter().zip(published) {
            let name = &config_map.name;
            let became = match result {
                Ok(published) => {
                    again.extend(again_at(name, &published));
                    valid_until.extend(published.validity.and_then(|validity| validity.valid_until));
                    self.tell_change(entry, name, &published.change);
                    let output = |key| (name.name.clone(), key);
                    joining.extend(published.joining.into_iter().map(output));
                    faults.extend(
                        published
                            .faults
                            .into_iter()
                            .map(|(key, fault)| (output(key), fault)),
                    );
                    Written::Published
                }
                Err(why) => {
                    outcome = Outcome::Retry;
                    self.failed(name, &why, before.written.get(&name.name))
                }
            };
            written.insert(name.name.clone(), became);
        }
        for (record, result) in unnamed.iter().zip(retired) {
            match result {
                Ok(Retirement::Until(at)) => again.push(at),
                Ok(Retirement::Gone | Retirement::Released) => self.cluster.nudger.ended(&record.name),
                Err(why) => {
                    outcome = Outcome::Retry;
                    again.push(now);
                    let name = &record.name;
                    let became = self.failed(name, &why, before.retiring.get(&name.name));
                    retiring.insert(name.name.clone(), became);
                }
            }
        }
        if faults.values().any(Fault::is_transient) {
            outcome = Outcome::Retry;
        }
        self.tell_faults(entry, &faults, &before.faults);
        self.index.set_outcome(
            &entry.key,
            index::Outcome {
                written,
                retiring,
                faults,
                joining,
                again_at: again.into_iter().min(),
                valid_until: valid_until.into_iter().min(),
            },
            words::now(),
        );
        outcome
    }

    /// What became of a ConfigMap that is not written; `before` is what became of it last. What lasts is said once.
    fn failed(&self, name: &NamespacedName, why: &PublishError, before: Option<&Written>) -> Written {
        self.metrics.publish_failed(why.reason());
        let message = why.to_string();
        let became = if why.needs_a_person() {
            Written::Refused {
                reason: why.reason(),
                message,
            }
        } else {
            Written::Pending { message }
        };
        if before == Some(&became) {
            debug!(config_map = %name, reason = why.reason(), error = %why, "still not written");
        } else {
            warn!(config_map = %name, reason = why.reason(), error = %why, "not written");
        }
        became
    }

    /// A line of log for each document that is not as it should be. What lasts is said once.
    fn tell_faults(
        &self,
        entry: &PolicyEntry,
        faults: &BTreeMap<(String, String), Fault>,
        before: &BTreeMap<(String, String), Fault>,
    ) {
        for (output, fault) in faults {
            self.metrics.publish_failed(fault.reason.as_str());
            if before.get(output) != Some(fault) {
                let (config_map, key) = output;
                warn!(policy = %entry.key, config_map, key, reason = %fault.reason, error = fault.message, "not as it should be");
            }
        }
    }

    /// A line of log when clients are told something else, or when somebody's edit is put back.
    pub(super) fn tell_change(&self, entry: &PolicyEntry, name: &NamespacedName, change: &Change) {
        match change {
            Change::Unchanged => {}
            Change::Noted => debug!(config_map = %name, "memory written"),
            Change::Created | Change::Updated => info!(config_map = %name, ?change, "written"),
            Change::TakenOver | Change::PutBack { .. } => {
                info!(config_map = %name, ?change, "written");
                if let Some(notice) = super::notices::put_right(name, change) {
                    self.cluster.events.about_policy(&entry.key, &entry.uid, &notice);
                }
            }
        }
    }
}

/// When to look at a ConfigMap again: to renew it, or to delete what left it.
fn again_at(name: &NamespacedName, published: &Published) -> Option<Timestamp> {
    let renewal = published
        .validity
        .and_then(|validity| validity.renewal_at(name.to_string()));
    [renewal, published.again_at].into_iter().flatten().min()
}
