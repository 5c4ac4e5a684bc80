//! The service config of gRPC.
//!
//! What surprises: `retryThrottling` is no load budget. It drains on failures only, and a slow server that fails nothing is
//! hedged without a limit; the budget of a target cannot be told to gRPC at all, so that it is off while the budget ramps up.
//!
//! And a status among `nonFatalStatusCodes` is no end of a call: a first attempt that fails with it is repeated. In an outage
//! that doubles the load, and what shall prevent it, `retryThrottling`, is not asked by gRPC-Node 1.14 before it hedges. So none
//! is non-fatal, at the price that a hedge which fails ends a call that the first attempt might have answered.
//!
//! Entries do not inherit: the one with the most specific name holds alone, so a new entry repeats what held before it.
//!
//! Sources: gRFC [A2](https://github.com/grpc/proposal/blob/master/A2-service-configs-in-dns.md) and
//! [A6](https://github.com/grpc/proposal/blob/master/A6-client-retries.md), and
//! [`service_config.proto`](https://github.com/grpc/grpc-proto/blob/master/grpc/service_config/service_config.proto).

use std::collections::HashSet;

use super::base::{self, Node, exactly};
use super::hedge::Hedge;
use super::place::Place;
use super::proto_duration;
use super::told::told;
use super::tree::Tree;
use super::{Part, RenderError};

/// A method of a gRPC service, or all methods of it.
///
/// On is a `hedgingPolicy` in its entry of `methodConfig`: `maxAttempts` counts the primary (2 to 5), `hedgingDelay` is in
/// seconds with the suffix `s`, to the millisecond, and `nonFatalStatusCodes` is empty, so that a failure ends the call as it
/// does without hedging. Off is the entry without it.
///
/// With a base, nothing but the `hedgingPolicy` changes; without one, the entry has the deadline as its `timeout`. A base
/// whose entry already hedges is refused, for off would hedge, and so is one that retries: gRPC takes one of the two
/// policies, and the user's own would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrpcMethod {
    /// The full name of the service, such as `search.Shard`.
    pub service: String,
    /// The method; `None` is every method that has no entry of its own.
    pub method: Option<String>,
}

/// A service and a method; an empty one stands for all.
type Name<'a> = (&'a str, &'a str);

impl Place for GrpcMethod {
    fn is_same(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

pub(super) fn render(parts: &[Part<GrpcMethod>], base: Option<&str>) -> Result<String, RenderError> {
    let pristine = match base {
        Some(base) => base::read_json(base)?,
        None => Tree::map([("methodConfig", Tree::List(Vec::new()))]),
    };
    let entries = entries(&pristine)?;
    let sources = parts
        .iter()
        .map(|part| source(&entries, part.place.name()))
        .collect::<Result<Vec<_>, _>>()?;
    let hedges = told(parts)?;
    for (part, hedge) in parts.iter().zip(&hedges) {
        if hedge.is_some() && part.place.service.is_empty() {
            return Err(part.cannot("names no service, which would be every call of the client: name one"));
        }
    }
    if let Some(base) = base
        && hedges.iter().all(Option::is_none)
    {
        return Ok(base.to_owned());
    }

    let mut config = pristine.clone();
    let list = config.entry("methodConfig", exactly);
    if !matches!(list, Tree::List(_)) {
        *list = Tree::List(Vec::new());
    }
    let Tree::List(written) = list else {
        return base::written(pristine.to_json());
    };
    for (at, ((part, hedge), source)) in parts.iter().zip(&hedges).zip(&sources).enumerate() {
        let name = part.place.name();
        if parts[..at].iter().any(|earlier| earlier.place.name() == name) {
            continue; // Both are off, and have one entry.
        }
        let named = source.filter(|entry| entry.names.contains(&name));
        // An off method under a service that hedges needs an entry of its own to stay off.
        let covered = parts
            .iter()
            .zip(&hedges)
            .any(|(other, hedge)| hedge.is_some() && other.place.name() == (name.0, ""));
        if hedge.is_none() && base.is_some() && (named.is_some() || !covered) {
            continue;
        }
        let entry = match named {
            Some(entry) if entry.names.len() == 1 => written.get_mut(entry.index),
            _ => {
                if let Some(entry) = named {
                    take_name(written.get_mut(entry.index), name);
                }
                written.push(new_entry(source.map(|entry| entry.tree), part, base.is_none()));
                written.last_mut()
            }
        };
        if let (Some(entry), Some(hedge)) = (entry, hedge) {
            *entry.entry("hedgingPolicy", exactly) = policy(hedge);
        }
    }
    let mut at = 0;
    written.retain(|entry| {
        let named_before = entries.get(at).is_some_and(|entry| !entry.names.is_empty());
        at += 1;
        let nameless = matches!(entry, Tree::Map(map) if map.get("name") == Some(&Tree::List(Vec::new())));
        !(named_before && nameless)
    });
    base::written(config.to_json())
}

impl GrpcMethod {
    fn name(&self) -> Name<'_> {
        (&self.service, self.method.as_deref().unwrap_or_default())
    }
}

/// An entry of `methodConfig` in the base.
struct Entry<'a> {
    index: usize,
    node: Node<'a>,
    tree: &'a Tree,
    names: Vec<Name<'a>>,
}

fn entries(config: &Tree) -> Result<Vec<Entry<'_>>, RenderError> {
    let mut entries = Vec::new();
    let mut seen = HashSet::new();
    for (index, node) in Node::root(config, exactly)
        .list("methodConfig")?
        .into_iter()
        .enumerate()
    {
        let mut names = Vec::new();
        for node in node.list("name")? {
            let part = |key| node.field(key)?.map_or(Ok(""), |part| part.text());
            let name = (part("service")?, part("method")?);
            if !seen.insert(name) {
                return Err(node.bad(format!("names {}/{} a second time: name it once", name.0, name.1)));
            }
            names.push(name);
        }
        let tree = node.tree;
        entries.push(Entry {
            index,
            node,
            tree,
            names,
        });
    }
    Ok(entries)
}

/// The entry that holds for `name`: its own, else that of the service, else the default.
fn source<'a>(entries: &'a [Entry<'a>], name: Name<'_>) -> Result<Option<&'a Entry<'a>>, RenderError> {
    let source = [name, (name.0, ""), ("", "")]
        .into_iter()
        .find_map(|name| entries.iter().find(|entry| entry.names.contains(&name)));
    let Some(entry) = source else { return Ok(None) };
    if entry.node.field("hedgingPolicy")?.is_some() {
        return Err(entry
            .node
            .bad("has a hedgingPolicy: take it away, for the base is what off looks like"));
    }
    if entry.node.field("retryPolicy")?.is_some() {
        return Err(entry.node.bad(format!(
            "has a retryPolicy, and gRPC takes no other beside it: give {}/{} an entry without one, or do not publish it",
            name.0, name.1
        )));
    }
    Ok(source)
}

/// A copy of the entry that held before, for this name alone.
fn new_entry(source: Option<&Tree>, part: &Part<GrpcMethod>, with_timeout: bool) -> Tree {
    let (service, method) = part.place.name();
    let mut name = Tree::map([("service", service.into())]);
    if !method.is_empty() {
        *name.entry("method", exactly) = method.into();
    }
    let mut entry = source.cloned().unwrap_or(Tree::Null);
    *entry.entry("name", exactly) = Tree::List(vec![name]);
    if let Some(deadline_ms) = part.limits.deadline_ms()
        && with_timeout
    {
        *entry.entry("timeout", exactly) = timeout(deadline_ms).into();
    }
    entry
}

/// A timeout has nine digits where it has any: gRPC-Node takes them for nanoseconds as they stand, so that of `2.9s` it would
/// make 2.000000009 s.
fn timeout(ms: u64) -> String {
    match (ms / 1000, ms % 1000) {
        (secs, 0) => format!("{secs}s"),
        (secs, ms) => format!("{secs}.{ms:03}000000s"),
    }
}

/// Takes a name out of an entry that has several.
fn take_name(entry: Option<&mut Tree>, (service, method): Name<'_>) {
    let is = |name: &Tree, key: &str, wanted: &str| match name {
        Tree::Map(name) => match name.get(key) {
            Some(Tree::Text(text)) => text == wanted,
            _ => wanted.is_empty(),
        },
        _ => false,
    };
    if let Some(Tree::Map(entry)) = entry
        && let Some(Tree::List(names)) = entry.get_mut("name")
    {
        names.retain(|name| !(is(name, "service", service) && is(name, "method", method)));
    }
}

/// `nonFatalStatusCodes` is written though it is empty: clients of Node fail on one that is absent.
fn policy(hedge: &Hedge) -> Tree {
    Tree::map([
        ("maxAttempts", (hedge.hedges + 1).into()),
        (
            "hedgingDelay",
            proto_duration::write(hedge.delay_ms.into()).into(),
        ),
        ("nonFatalStatusCodes", Tree::List(Vec::new())),
    ])
}

#[cfg(test)]
mod tests {
    use super::timeout;

    #[test]
    fn a_timeout_has_nine_digits_or_none() {
        for (ms, text) in [(10_000, "10s"), (2900, "2.900000000s"), (1, "0.001000000s")] {
            assert_eq!(timeout(ms), text);
        }
    }
}
