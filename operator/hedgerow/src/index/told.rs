//! What clients of one target were told: what was handed on to be written, what is written, and where.

use std::collections::BTreeSet;

use hedgerow_tuner::{Decision, Memory, Timestamp};

#[derive(Debug, Default)]
pub(super) struct Told {
    /// What was decided and remembered when documents were handed on last.
    pub(super) handed: Option<(Decision, Memory)>,
    /// The revision that was written last, and when this process wrote it.
    pub(super) published: Option<u64>,
    published_at: Option<Timestamp>,
    /// When what was written last expires: clients are off then, whatever was decided.
    valid_until: Option<Timestamp>,
    /// The ConfigMaps whose clients were told of it while the budget was no higher than now.
    config_maps: BTreeSet<String>,
    /// Clients joined to whom it was not told before.
    joined: bool,
}

impl Told {
    /// Of a target of which each ConfigMap remembers this from before.
    pub(super) fn recalled(recalled: &[(String, Memory)], newest: Option<&Memory>) -> Self {
        let hedged = recalled.iter().filter(|(_, memory)| memory.lets_hedge());
        Self {
            config_maps: hedged.map(|(config_map, _)| config_map.clone()).collect(),
            published: newest.map(|memory| memory.revision),
            ..Self::default()
        }
    }

    /// Notes that a ConfigMap tells of the target as it stands. Had its clients not been told before (another ConfigMap of
    /// that name stood in the way, or it was named while no operator ran), they join those of the others now.
    pub(super) fn note_config_map(&mut self, config_map: &str) {
        if !self.config_maps.contains(config_map) {
            self.config_maps.insert(config_map.to_owned());
            self.joined = true;
        }
    }

    /// Notes that clients join, if they do.
    pub(super) fn note_joined(&mut self, joined: bool) {
        self.joined |= joined;
    }

    /// Whether clients joined since this was asked last.
    pub(super) fn take_joined(&mut self) -> bool {
        std::mem::take(&mut self.joined)
    }

    /// Whether what was written last has expired.
    pub(super) fn has_expired(&self, now: Timestamp) -> bool {
        self.valid_until.is_some_and(|until| until <= now)
    }

    /// Notes that the documents that were handed on last are written, and hold until then. What is remembered of the target
    /// now is told when they took effect, as long as it is about the same revision.
    pub(super) fn note_written(
        &mut self,
        memory: &mut Memory,
        valid_until: Option<Timestamp>,
        now: Timestamp,
    ) {
        self.valid_until = valid_until;
        let Some((_, handed)) = &mut self.handed else {
            return;
        };
        if self.published == Some(handed.revision) {
            return;
        }
        self.published = Some(handed.revision);
        let before = self.published_at.replace(now);
        if handed.revision == memory.revision {
            memory.took_effect(before, now);
            handed.took_effect(before, now);
        }
    }
}
