//! Changes a ConfigMap `hedgerow-off`, so that no stop of another person is lost: each write carries the version that was
//! read, and begins anew where there is another by then.

use hedgerow::cluster::Breadth;
use hedgerow::exit::Failure;
use hedgerow_api::names::{CLI_FIELD_MANAGER, OFF_CONFIG_MAP};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client};

use super::order::Order;
use crate::session::failure;

/// How often it begins anew. Each time somebody else has written in between.
const TRIES: usize = 20;

/// One ConfigMap `hedgerow-off`, there or not.
pub(super) struct OffSwitch<'a> {
    client: &'a Client,
    pub(super) namespace: &'a str,
    breadth: Breadth<'a>,
}

/// What was there before a change, and what is there after it.
pub(super) struct Changed {
    pub(super) before: Order,
    pub(super) after: Order,
}

impl<'a> OffSwitch<'a> {
    /// The one in `namespace`, which is the operator's or not.
    pub(super) fn new(client: &'a Client, namespace: &'a str, is_operators: bool) -> Self {
        let breadth = if is_operators {
            Breadth::Cluster
        } else {
            Breadth::Namespace(namespace)
        };
        Self {
            client,
            namespace,
            breadth,
        }
    }

    /// What it orders now.
    pub(super) async fn read(&self) -> Result<Order, kube::Error> {
        let live = self.api().get_opt(OFF_CONFIG_MAP).await?;
        Ok(live.map_or_else(Order::default, |live| Order::read(&live, self.breadth)))
    }

    /// Changes what it orders. `edit` is asked again with what is there, when that has changed meanwhile.
    pub(super) async fn change(
        &self,
        edit: impl Fn(&mut Order) -> Result<(), Failure>,
    ) -> Result<Changed, Failure> {
        let what = format!("ConfigMap {}/{OFF_CONFIG_MAP}", self.namespace);
        for _ in 0..TRIES {
            let live = self.api().get_opt(OFF_CONFIG_MAP).await;
            let live = live.map_err(|why| failure(&what, &why))?;
            let before = live
                .as_ref()
                .map_or_else(Order::default, |live| Order::read(live, self.breadth));
            let mut after = before.clone();
            edit(&mut after)?;
            if after == before {
                return Ok(Changed { before, after });
            }
            let was_there = live.is_some();
            match self.write(live, &after).await {
                Ok(()) => return Ok(Changed { before, after }),
                // One that is gone meanwhile is begun anew; a namespace that is not there stays away.
                Err(kube::Error::Api(status)) if status.code == 409 || (status.code == 404 && was_there) => {}
                Err(why) => return Err(failure(&what, &why)),
            }
        }
        Err(Failure::failed(format!(
            "{what} was changed by others {TRIES} times in a row; nothing was written: try again"
        )))
    }

    async fn write(&self, live: Option<ConfigMap>, order: &Order) -> Result<(), kube::Error> {
        let api = self.api();
        let writing = PostParams {
            field_manager: Some(CLI_FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match live {
            // Of two that create it one is refused, and begins anew.
            None => {
                let mut created = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(OFF_CONFIG_MAP.to_owned()),
                        ..ObjectMeta::default()
                    },
                    ..ConfigMap::default()
                };
                order.write(&mut created);
                api.create(&writing, &created).await.map(drop)
            }
            Some(live) if order.is_empty() => {
                let seen = Preconditions {
                    resource_version: live.metadata.resource_version,
                    uid: live.metadata.uid,
                };
                let deleting = DeleteParams::default().preconditions(seen);
                api.delete(OFF_CONFIG_MAP, &deleting).await.map(drop)
            }
            // It carries the version that was read.
            Some(mut live) => {
                order.write(&mut live);
                api.replace(OFF_CONFIG_MAP, &writing, &live).await.map(drop)
            }
        }
    }

    fn api(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), self.namespace)
    }
}
