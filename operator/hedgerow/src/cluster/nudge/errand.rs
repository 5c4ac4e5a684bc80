//! What there is to do about nudging, piece by piece.

use std::collections::VecDeque;

use k8s_openapi::api::core::v1::Pod;
use kube::core::PartialObjectMeta;

use super::{Nudge, PolicyKey};

/// One thing to do for a policy.
#[derive(Debug)]
pub(super) enum Errand {
    /// Ask whether its pods may be nudged.
    MayNudge(PolicyKey),
    /// Nudge some of the pods of an output.
    Nudge(Job),
}

/// The pods of one output, as far as they are not nudged yet.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) nudge: Nudge,
    /// `None` until they are listed.
    pub(super) left: Option<VecDeque<PartialObjectMeta<Pod>>>,
    pub(super) done: usize,
    /// How many there were, within the limit and beyond it.
    pub(super) total: usize,
    pub(super) skipped: usize,
}

impl Errand {
    pub(super) fn policy(&self) -> &PolicyKey {
        match self {
            Self::MayNudge(policy) => policy,
            Self::Nudge(job) => &job.nudge.policy,
        }
    }

    /// Whether it is about the same pods, or the same question.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::MayNudge(one), Self::MayNudge(other)) => one == other,
            (Self::Nudge(one), Self::Nudge(other)) => {
                one.nudge.config_map == other.nudge.config_map && one.nudge.pods == other.nudge.pods
            }
            _ => false,
        }
    }
}

impl Job {
    pub(super) fn new(nudge: Nudge) -> Self {
        Self {
            nudge,
            left: None,
            done: 0,
            total: 0,
            skipped: 0,
        }
    }
}
