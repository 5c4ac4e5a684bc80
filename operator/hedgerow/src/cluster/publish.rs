//! The one module that writes ConfigMaps.
//!
//! The unit of writing is the ConfigMap with all its keys. A ConfigMap is first *staked* by POST, which never touches one
//! that exists, and then filled by server-side apply that carries the UID and resourceVersion of what was read. So a
//! stranger's ConfigMap of that name is never changed, not even in a race; an unguarded apply would add our controller
//! reference to it, and garbage collection would delete it with the policy.

mod desired;
mod error;
mod joining;
mod live;
mod off;
mod plan;
mod render;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures::future::join_all;
use hedgerow_api::names::FIELD_MANAGER;
use hedgerow_config::Validity;
use hedgerow_tuner::{Reason, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client};

pub use self::desired::{DesiredConfigMap, EndOfLife};
pub use self::error::PublishError;
use self::live::Live;
use self::plan::Plan;
use self::render::{BaseTexts, render};
pub use self::render::{DesiredForm, Fault, Instead};
use super::bases::Bases;
use super::name::NamespacedName;
use super::nudge::Nudger;
use super::outputs::Outputs;
use super::policies::Policies;
use super::record::Owner;
use super::write::{WriteError, WriteKind, Writer, bounded};

/// How often a write begins again with a fresh read before it is left to the queue's back-off.
const ATTEMPTS: usize = 4;

/// Writes the ConfigMaps of policies. Cheap to clone.
#[derive(Clone)]
pub struct Publisher {
    inner: Arc<Inner>,
}

struct Inner {
    client: Client,
    writer: Writer,
    instance: String,
    policies: Policies,
    outputs: Outputs,
    bases: Bases,
    nudger: Nudger,
    /// Each ConfigMap as it was last read or written, so that nothing is asked for what is known.
    seen: Mutex<HashMap<NamespacedName, Live>>,
}

/// What publishing did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// What was written, if anything.
    pub change: Change,
    /// Whether by what was written clients are off, or hedge less or later, than by what was there before: the safe
    /// direction. Also after a write that failed and was made up for, and after a restart.
    pub safer: bool,
    /// From when to when the documents hold that expire first; renew them in between. `None` when none expires.
    pub validity: Option<Validity>,
    /// When to publish again even if nothing changes: a key that left the spec is to be deleted.
    pub again_at: Option<Timestamp>,
    /// What is not as it should be, by key.
    pub faults: BTreeMap<String, Fault>,
    /// The keys that were held off though their targets hedge: their clients come to hedging, or back to it, so the ramps of
    /// these targets are to begin anew before they may. See [`DesiredForm::may_join`].
    pub joining: BTreeSet<String>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing: it was there already.
    Unchanged,
    /// A new ConfigMap.
    Created,
    /// New content.
    Updated,
    /// What is remembered of its targets, or noted about it, and no document: clients are told nothing new.
    Noted,
    /// What somebody else had edited or deleted.
    PutBack {
        /// The field manager that edited it, if it said.
        editor: Option<String>,
    },
    /// A ConfigMap that an earlier policy of this install had written.
    TakenOver,
}

/// What became of an output that is no longer wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retirement {
    /// Written off; to be called again at this time, when the off document expires.
    Until(Timestamp),
    /// Deleted, or gone already.
    Gone,
    /// Written off and left, since nothing tells its clients that it expires.
    Released,
}

impl Publisher {
    pub(super) fn new(
        client: Client,
        writer: Writer,
        instance: String,
        policies: Policies,
        outputs: Outputs,
        nudger: Nudger,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                bases: Bases::new(client.clone(), outputs.clone()),
                client,
                writer,
                instance,
                policies,
                outputs,
                nudger,
                seen: Mutex::default(),
            }),
        }
    }

    /// Makes the ConfigMap be as desired. Sends nothing when it is known to be so already, so it may be called for every
    /// change that a watch tells.
    ///
    /// # Errors
    ///
    /// When the ConfigMap is not this policy's to write, or cannot be written; see [`PublishError`].
    pub async fn publish(
        &self,
        desired: &DesiredConfigMap,
        now: Timestamp,
    ) -> Result<Published, PublishError> {
        let published = self.publish_whole(desired, now).await;
        if let Err(PublishError::TooLarge { name, .. }) = &published {
            // Nor does what stands there hedge on: later there might be no room to say off.
            let before = self.seen(name);
            let current = self.known(name, before.as_ref()).await?;
            if let Some(current) =
                current.filter(|current| current.is_for(&desired.owner, &self.inner.instance))
            {
                // What is remembered stays, so that its clients come back by the ramp.
                let off = current.as_desired_off(name, &desired.owner, before.as_ref(), Reason::Invalid, now);
                self.publish_whole(&off, now).await?;
            }
        }
        published
    }

    async fn publish_whole(
        &self,
        desired: &DesiredConfigMap,
        now: Timestamp,
    ) -> Result<Published, PublishError> {
        let name = &desired.name;
        self.check_claim(desired)?;
        let before = self.seen(name);
        let mut change = Change::Updated;
        let bases = self.bases(desired).await;
        let mut live = self.known(name, before.as_ref()).await?;
        for _ in 0..ATTEMPTS {
            let rendered = render(desired, &bases, live.as_ref(), before.as_ref());
            let Some(current) = live.take() else {
                // A ConfigMap without a document would let pods start that mount it and find nothing.
                if rendered.documents.is_empty() && !desired.forms.is_empty() && desired.documents.is_empty()
                {
                    return Ok(Published {
                        faults: rendered.faults,
                        ..Published::nothing()
                    });
                }
                match self.stake(desired).await? {
                    Some(staked) => {
                        change = if before.is_some() {
                            Change::PutBack { editor: None }
                        } else {
                            Change::Created
                        };
                        live = Some(staked);
                    }
                    None => live = self.read(name).await?,
                }
                continue;
            };
            current.check_writable(name, &self.inner.instance)?;
            let plan = Plan::new(desired, rendered, &current, now);
            if plan.is_fulfilled_by(&current, desired) {
                let result = plan.published(Change::Unchanged, desired, &current);
                self.remember(name, current);
                return Ok(result);
            }
            plan.check_room(name)?;
            match self
                .apply(plan.config_map(desired, &current, &self.inner.instance)?)
                .await
            {
                Ok(written) => {
                    if change == Change::Updated {
                        change = describe(&current, &written, before.as_ref(), desired);
                    }
                    let published = plan.published(change, desired, &current);
                    self.nudge(name, published.safer, &written);
                    self.remember(name, written);
                    return Ok(published);
                }
                Err(error) if error.is_conflict() || error.is_not_found() => live = self.read(name).await?,
                Err(error) => return Err(PublishError::from_write(name, error)),
            }
        }
        Err(PublishError::Contended { name: name.clone() })
    }

    /// Writes every document of an output off, and leaves what cannot be read as it is: for a policy that is not valid, or
    /// cannot be understood, whose documents nobody can render. The off documents hold as long as those before them did.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub async fn write_off(
        &self,
        name: &NamespacedName,
        owner: &Owner,
        reason: Reason,
        now: Timestamp,
    ) -> Result<Published, PublishError> {
        let before = self.seen(name);
        let current = self.known(name, before.as_ref()).await?;
        let Some(current) = current.filter(|current| current.is_for(owner, &self.inner.instance)) else {
            return Ok(Published::nothing());
        };
        let desired = DesiredConfigMap {
            // The newest memory of a target counts: this one, once the policy is mended.
            memory: off::remembered(&current.record.memory, now),
            ..current.as_desired_off(name, owner, before.as_ref(), reason, now)
        };
        self.publish_whole(&desired, now).await
    }

    /// Ends an output that its policy no longer names: written off first, then its keys are deleted as the off documents
    /// expire, and the ConfigMap with the last of them. Documents that never expire are written off and left.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub async fn retire(
        &self,
        name: &NamespacedName,
        owner: &Owner,
        now: Timestamp,
    ) -> Result<Retirement, PublishError> {
        self.end(name, owner, now, false).await
    }

    /// Ends an output whose policy is gone and that garbage collection does not remove: written off, annotated
    /// `hedgerow.dev/released`, and left for whoever still reads it.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
    pub async fn release(
        &self,
        name: &NamespacedName,
        owner: &Owner,
        now: Timestamp,
    ) -> Result<Retirement, PublishError> {
        self.end(name, owner, now, true).await
    }

    /// Forgets what is known of a policy's ConfigMaps, when it is gone.
    pub fn forget(&self, policy_uid: &str) {
        let mut seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|_, live| {
            live.record
                .owner
                .as_ref()
                .is_none_or(|owner| owner.uid != policy_uid)
        });
    }

    async fn end(
        &self,
        name: &NamespacedName,
        owner: &Owner,
        now: Timestamp,
        leave: bool,
    ) -> Result<Retirement, PublishError> {
        let before = self.seen(name);
        for _ in 0..ATTEMPTS {
            let Some(current) = self.read(name).await? else {
                return Ok(Retirement::Gone);
            };
            // Another policy has taken it over, or a person has made it their own: then it is not ours to end.
            if !current.is_for(owner, &self.inner.instance) {
                return Ok(Retirement::Gone);
            }
            if current.record.released {
                return Ok(Retirement::Released);
            }
            let kept = off::retired(&current.written_documents(before.as_ref()), now);
            let until = kept.values().filter_map(|document| document.until).min();
            let leave = leave || kept.values().any(|document| document.until.is_none());
            if kept.is_empty() {
                match self.delete(name, &current).await {
                    Ok(()) => return Ok(Retirement::Gone),
                    Err(error) if error.is_conflict() => continue,
                    Err(error) => return Err(PublishError::from_write(name, error)),
                }
            }
            let documents = kept
                .into_iter()
                .map(|(key, document)| (key, document.text))
                .collect();
            let mut desired = DesiredConfigMap {
                documents,
                // The newest memory of a target counts: that of any other ConfigMap which tells of it.
                memory: off::remembered(&current.record.memory, Timestamp::default()),
                ..current.as_desired(name, owner, before.as_ref())
            };
            if leave {
                desired.end_of_life = EndOfLife::Left;
            }
            let plan = Plan::exactly(&desired);
            if !leave && plan.is_fulfilled_by(&current, &desired) {
                self.remember(name, current);
                return Ok(until.map_or(Retirement::Released, Retirement::Until));
            }
            let mut config_map = plan.config_map(&desired, &current, &self.inner.instance)?;
            if leave {
                live::mark_released(&mut config_map, now);
            }
            let safer = plan.is_safer_than(&current, &desired);
            match self.apply(config_map).await {
                Ok(written) => {
                    self.nudge(name, safer, &written);
                    self.remember(name, written);
                    let until = until.filter(|_| !leave);
                    return Ok(until.map_or(Retirement::Released, Retirement::Until));
                }
                Err(error) if error.is_conflict() || error.is_not_found() => {}
                Err(error) => return Err(PublishError::from_write(name, error)),
            }
        }
        Err(PublishError::Contended { name: name.clone() })
    }

    /// Whatever the way, what got safer is to be looked at.
    fn nudge(&self, name: &NamespacedName, safer: bool, written: &Live) {
        if safer {
            self.inner.nudger.is_safer(name, &written.record.resource_version);
        }
    }

    /// The content of each base.
    async fn bases(&self, desired: &DesiredConfigMap) -> BaseTexts {
        let named = desired
            .forms
            .iter()
            .filter_map(|(key, form)| Some((key, form.base.as_ref()?)));
        let texts = named.map(async |(key, base)| (key.clone(), self.inner.bases.text(base).await));
        join_all(texts).await.into_iter().collect()
    }

    /// Whether this policy may write this ConfigMap, by what the policies say.
    fn check_claim(&self, desired: &DesiredConfigMap) -> Result<(), PublishError> {
        match self.inner.policies.winner(&desired.name) {
            Some(winner) if winner.uid == desired.owner.uid => Ok(()),
            Some(winner) if winner.policy != desired.owner.policy => Err(PublishError::Conflicted {
                name: desired.name.clone(),
                winner: winner.policy,
            }),
            // An edit that nobody can read may have taken the name away: what was written before must still go off.
            None if self.exists(&desired.owner) => Ok(()),
            _ => Err(PublishError::PolicyGone),
        }
    }

    fn exists(&self, owner: &Owner) -> bool {
        let policy = self.inner.policies.get(&owner.policy);
        policy.is_some_and(|policy| policy.uid == owner.uid)
    }

    /// The ConfigMap as it is: from memory while the watch has seen nothing newer, else read.
    async fn known(
        &self,
        name: &NamespacedName,
        before: Option<&Live>,
    ) -> Result<Option<Live>, PublishError> {
        let observed = self.inner.outputs.get(name);
        match (observed, before) {
            (Some(observed), Some(before)) if observed.resource_version == before.record.resource_version => {
                Ok(Some(before.clone()))
            }
            (None, None) => Ok(None),
            _ => self.read(name).await,
        }
    }

    async fn read(&self, name: &NamespacedName) -> Result<Option<Live>, PublishError> {
        let api = self.api(name);
        let config_map = bounded(api.get_opt(&name.name)).await;
        let config_map = config_map.map_err(|error| PublishError::from_write(name, error))?;
        Ok(config_map.map(Live::read))
    }

    /// Creates the ConfigMap, empty; `None` when there is one. Only labels and annotations: fields that a POST sets are
    /// owned apart from those that an apply sets, and a later apply could never remove them again.
    async fn stake(&self, desired: &DesiredConfigMap) -> Result<Option<Live>, PublishError> {
        let config_map = desired.stake(&self.inner.instance);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let api = self.api(&desired.name);
        let request = api.create(&params, &config_map);
        match self.inner.writer.write(WriteKind::ConfigMap, request).await {
            Ok(created) => Ok(Some(Live::read(created))),
            Err(error) if error.is_already_exists() => Ok(None),
            Err(error) => Err(PublishError::from_write(&desired.name, error)),
        }
    }

    async fn apply(&self, config_map: ConfigMap) -> Result<Live, WriteError> {
        let name = NamespacedName::of(&config_map.metadata);
        let params = PatchParams::apply(FIELD_MANAGER).force();
        let api = self.api(&name);
        let patch = Patch::Apply(&config_map);
        let request = api.patch(&name.name, &params, &patch);
        let written = self.inner.writer.write(WriteKind::ConfigMap, request).await?;
        Ok(Live::read(written))
    }

    async fn delete(&self, name: &NamespacedName, live: &Live) -> Result<(), WriteError> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(live.record.uid.clone()),
                resource_version: Some(live.record.resource_version.clone()),
            }),
            ..DeleteParams::default()
        };
        let api = self.api(name);
        let request = api.delete(&name.name, &params);
        match self.inner.writer.write(WriteKind::ConfigMap, request).await {
            Err(error) if !error.is_not_found() => Err(error),
            _ => {
                let mut seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
                seen.remove(name);
                Ok(())
            }
        }
    }

    fn api(&self, name: &NamespacedName) -> Api<ConfigMap> {
        Api::namespaced(self.inner.client.clone(), &name.namespace)
    }

    fn seen(&self, name: &NamespacedName) -> Option<Live> {
        let seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name).cloned()
    }

    fn remember(&self, name: &NamespacedName, live: Live) {
        let mut seen = self.inner.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.insert(name.clone(), live);
    }
}

/// What a write meant: the content before it may be somebody else's edit, or another policy's.
fn describe(current: &Live, written: &Live, before: Option<&Live>, desired: &DesiredConfigMap) -> Change {
    let same_owner = current
        .record
        .owner
        .as_ref()
        .is_none_or(|owner| owner.uid == desired.owner.uid);
    if !same_owner {
        return Change::TakenOver;
    }
    match before {
        Some(before) if before.was_edited(current) => Change::PutBack {
            editor: current.editor.clone(),
        },
        _ if written.documents == current.documents => Change::Noted,
        _ => Change::Updated,
    }
}

impl Published {
    /// There is no such output, so there was nothing to do.
    fn nothing() -> Self {
        Self {
            change: Change::Unchanged,
            safer: false,
            validity: None,
            again_at: None,
            faults: BTreeMap::new(),
            joining: BTreeSet::new(),
        }
    }
}
