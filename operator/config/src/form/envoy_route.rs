//! Envoy's route discovery, in a file.
//!
//! What surprises: the delay is `per_try_timeout`, a timeout. With `hedge_on_per_try_timeout` it lets the first attempt run
//! on and sends a second; left behind without it, it is a hard timeout that ends every slow call. So off is the base, with the
//! `per_try_timeout` that it has or has not.
//!
//! Sources:
//! [`route_components.proto`](https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto), and
//! Envoy's router: it keeps the timeout in whole milliseconds, ignores one that is not under the route's own timeout, and
//! hedges only where `retry_on` is set.

use super::base::{self, Node};
use super::hedge::Hedge;
use super::place::Place;
use super::proto_duration;
use super::told::told;
use super::tree::Tree;
use super::{Part, RenderError};

/// What is retried where the base does not say: requests that no upstream has begun to work on. Envoy does not hedge without
/// any, and more would be retries that nobody asked for.
const RETRY_ON: &str = "connect-failure,refused-stream";

/// The predicate that sends a hedge to another host.
const PREVIOUS_HOSTS: &str = "envoy.retry_host_predicates.previous_hosts";
const PREVIOUS_HOSTS_TYPE: &str =
    "type.googleapis.com/envoy.extensions.retry.host.previous_hosts.v3.PreviousHostsPredicate";

/// How often another host is drawn before the same one is taken, where the base does not say.
const HOST_ATTEMPTS: u32 = 3;

/// The timeout of a route that has none, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 15_000;

/// The routes of Envoy that lead to a cluster: all of them. Where some are not safe to run twice, give those a cluster of
/// their own.
///
/// On, each route has a `hedge_policy`, and in its `retry_policy` (its own, or a copy of the virtual host's, since Envoy does
/// not merge them) the delay as `per_try_timeout`, in seconds to the millisecond, and `num_retries`, hedges and retries
/// together, as many as the target may hedge: 1 to 4. `retry_on` and host predicates of the base stay. Off is the base, and so
/// is a budget that ramps up: it stands in the cluster, which is not in this file.
///
/// The base is the file that Envoy would read, with `resources`. Refused are routes that already hedge (off would hedge), that
/// forbid retries, or that lead to several clusters by weight (hedging one would hedge all). Numbers with a fraction have to
/// be quoted, as Envoy itself reads them as texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnvoyCluster {
    /// The name of the cluster.
    pub cluster: String,
}

impl Place for EnvoyCluster {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

pub(super) fn render(parts: &[Part<EnvoyCluster>], base: Option<&str>) -> Result<String, RenderError> {
    let Some(text) = base else {
        return Err(base::bad(
            "base",
            "is missing: name the ConfigMap that holds your own routes",
        ));
    };
    let mut config = base::read_yaml(text)?;
    refuse_fractions(&config, "")?;
    let found = parts
        .iter()
        .map(|part| routes(&config, &part.place.cluster))
        .collect::<Result<Vec<_>, _>>()?;
    let hedges = told(parts)?;
    let mut changes = Vec::new();
    for ((part, hedge), routes) in parts.iter().zip(hedges).zip(found) {
        let Some(hedge) = hedge else { continue };
        for route in routes {
            if route
                .timeout_ms
                .is_some_and(|timeout| u64::from(hedge.delay_ms) >= timeout)
            {
                return Err(part.cannot(format!(
                    "{}: Envoy never hedges after {} ms, as the route's timeout is no longer than that: raise it",
                    route.at, hedge.delay_ms
                )));
            }
            changes.push((route.index, hedged(route.retry_policy, &hedge)));
        }
    }
    if changes.is_empty() {
        return Ok(text.to_owned());
    }
    for ([resource, host, route], retry_policy) in changes {
        let hosts = item(config.entry("resources", same_field), resource)
            .and_then(|resource| item(resource.entry("virtual_hosts", same_field), host));
        let action = hosts
            .and_then(|host| item(host.entry("routes", same_field), route))
            .map(|route| route.entry("route", same_field));
        if let Some(action) = action {
            *action.entry("retry_policy", same_field) = retry_policy;
            *action.entry("hedge_policy", same_field) =
                Tree::map([("hedge_on_per_try_timeout", true.into())]);
        }
    }
    base::written(config.to_yaml())
}

/// A route that leads to a cluster.
struct Route {
    at: String,
    /// Of the resource, the virtual host and the route.
    index: [usize; 3],
    /// The retry policy that holds for it.
    retry_policy: Tree,
    /// `None` is without end.
    timeout_ms: Option<u64>,
}

fn routes(config: &Tree, cluster: &str) -> Result<Vec<Route>, RenderError> {
    let root = Node::root(config, same_field);
    let mut found = Vec::new();
    let resources = root.needed(
        "resources",
        "write the file as Envoy reads it from path_config_source",
    )?;
    for (r, resource) in resources.items()?.into_iter().enumerate() {
        for (h, host) in resource.list("virtual_hosts")?.into_iter().enumerate() {
            for (n, route) in host.list("routes")?.into_iter().enumerate() {
                let Some(action) = route.field("route")? else {
                    continue;
                };
                if leads_to(&route, &action, cluster)? {
                    found.push(read_route(&host, &route, &action, [r, h, n])?);
                }
            }
        }
    }
    if found.is_empty() {
        return Err(resources.bad(format!(
            "has no route to the cluster {cluster}: add one, or name another cluster"
        )));
    }
    Ok(found)
}

fn leads_to(route: &Node<'_>, action: &Node<'_>, cluster: &str) -> Result<bool, RenderError> {
    if let Some(weighted) = action.field("weighted_clusters")? {
        for weighted in weighted.list("clusters")? {
            if let Some(name) = weighted.field("name")?
                && name.text()? == cluster
            {
                return Err(route.bad(format!(
                    "leads to {cluster} and other clusters by weight, and would hedge all of them: give {cluster} a route of its own"
                )));
            }
        }
    }
    Ok(match action.field("cluster")? {
        Some(name) => name.text()? == cluster,
        None => false,
    })
}

fn read_route(
    host: &Node<'_>,
    route: &Node<'_>,
    action: &Node<'_>,
    index: [usize; 3],
) -> Result<Route, RenderError> {
    for owner in [action, host] {
        if let Some(policy) = owner.field("hedge_policy")? {
            return Err(policy.bad("is set: take it away, for the base is what off looks like"));
        }
        if let Some(policy) = owner.field("retry_policy_typed_config")? {
            return Err(policy.bad("is a retry policy that Hedgerow cannot read: write it as retry_policy"));
        }
    }
    let policy = match action.field("retry_policy")? {
        Some(policy) => Some(policy),
        None => host.field("retry_policy")?,
    };
    if let Some(policy) = &policy {
        let retries = policy.field("num_retries")?;
        if let Some(retries) = retries
            && (*retries.tree == Tree::from(0) || *retries.tree == Tree::from("0"))
        {
            return Err(retries.bad("forbids retries, and Envoy hedges by retrying: take it away"));
        }
        if let Some(retry_on) = policy.field("retry_on")? {
            retry_on.text()?;
        }
        for predicate in policy.list("retry_host_predicate")? {
            predicate.field("name")?;
        }
    }
    let timeout_ms = match action.field("timeout")? {
        Some(timeout) => proto_duration::parse(timeout.text()?)
            .ok_or_else(|| timeout.bad("is no duration: write it as seconds, such as 1.5s"))?,
        None => DEFAULT_TIMEOUT_MS,
    };
    Ok(Route {
        at: route.at.clone(),
        index,
        retry_policy: policy.map_or(Tree::Null, |policy| policy.tree.clone()),
        timeout_ms: (timeout_ms > 0).then_some(timeout_ms),
    })
}

/// The retry policy with the delay in it.
fn hedged(mut policy: Tree, hedge: &Hedge) -> Tree {
    let retry_on = policy.entry("retry_on", same_field);
    if *retry_on == Tree::Null || *retry_on == Tree::from("") {
        *retry_on = RETRY_ON.into();
    }
    *policy.entry("num_retries", same_field) = hedge.hedges.into();
    *policy.entry("per_try_timeout", same_field) = proto_duration::write(hedge.delay_ms.into()).into();
    let predicates = policy.entry("retry_host_predicate", same_field);
    let name = Tree::from(PREVIOUS_HOSTS);
    let known = |known: &Tree| matches!(known, Tree::Map(known) if known.get("name") == Some(&name));
    if !predicates.items_mut().iter().any(known) {
        let previous = Tree::map([
            ("name", PREVIOUS_HOSTS.into()),
            ("typed_config", Tree::map([("@type", PREVIOUS_HOSTS_TYPE.into())])),
        ]);
        match predicates {
            Tree::List(predicates) => predicates.push(previous),
            other => *other = Tree::List(vec![previous]),
        }
    }
    let attempts = policy.entry("host_selection_retry_max_attempts", same_field);
    if *attempts == Tree::Null {
        *attempts = HOST_ATTEMPTS.into();
    }
    policy
}

fn item(list: &mut Tree, at: usize) -> Option<&mut Tree> {
    list.items_mut().get_mut(at)
}

/// Envoy takes `1.30` without quotes for the text 1.30, and it would come out as 1.3.
fn refuse_fractions(tree: &Tree, at: &str) -> Result<(), RenderError> {
    match tree {
        Tree::Number(number) if number.is_f64() => Err(base::bad(
            at.trim_start_matches('.'),
            format!("is {number} without quotes: put a number with a fraction in quotes"),
        )),
        Tree::List(items) => {
            let mut items = items.iter().enumerate();
            items.try_for_each(|(n, item)| refuse_fractions(item, &format!("{at}[{n}]")))
        }
        Tree::Map(map) => {
            let mut fields = map.iter();
            fields.try_for_each(|(key, field)| refuse_fractions(field, &format!("{at}.{key}")))
        }
        _ => Ok(()),
    }
}

/// Envoy reads each field by its name in the proto file, `retry_policy`, and by that in JSON, `retryPolicy`.
fn same_field(a: &str, b: &str) -> bool {
    // Of two spellings the longer one has underscores; the first letters differ most often, and tell at once.
    a == b
        || (a.len() != b.len()
            && a.as_bytes().first() == b.as_bytes().first()
            && camel_case(a) == camel_case(b))
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at(word.chars().next().map_or(0, char::len_utf8));
        name + &initial.to_uppercase() + rest
    })
}
