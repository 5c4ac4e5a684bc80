//! The config file of a Kitex client.
//!
//! What surprises: an entry without `backup_policy` is skipped, `enable: false` or not, and then what held before goes on. So
//! an entry that is off keeps its policy. And `error_rate` is a budget here: the extension counts hedges instead of errors, so
//! it is the share of hedges among all attempts.
//!
//! Sources: [`retry.go`](https://github.com/kitex-contrib/config-file/blob/main/client/retry.go) of `config-file`, and Kitex'
//! [`pkg/retry`](https://github.com/cloudwego/kitex/tree/main/pkg/retry).

use super::base::{self, Node, exactly};
use super::hedge::Hedge;
use super::place::Place;
use super::tree::Tree;
use super::{Part, RenderError};

/// The type of a policy that hedges.
const BACKUP: u32 = 1;

/// Hedges per call that Kitex takes.
const MOST_HEDGES: u32 = 2;

/// The largest `error_rate` that Kitex takes.
const LARGEST_RATE: f64 = 0.3;

/// The entry for every method that has none of its own.
const WILDCARD: &str = "*";

/// A method as a Kitex client calls it.
///
/// On is, under `Client/Server`, `retry` and the method, `enable`, `type` 1 and a `backup_policy`: `retry_delay_ms`, the delay
/// in whole milliseconds; `max_retry_times`, hedges without the primary, 1 or 2; and `error_rate`, the budget as a share,
/// above 0, and 0.3 at most. Off is `enable: false` with the `backup_policy` kept, or the base.
///
/// With a base, other fields of the entry stay. The base must have the section of client and server; its entry for the
/// method may be missing, or be disabled with a `backup_policy` and no other policy. An entry that retries (its own or that of
/// `*`) is refused: Kitex takes one policy for a method, and the user's would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KitexMethod {
    /// The name of the client.
    pub client: String,
    /// The name of the server.
    pub server: String,
    /// The method.
    pub method: String,
}

impl Place for KitexMethod {
    fn is_same(&self, other: &Self) -> bool {
        self == other
    }
}

pub(super) fn render(parts: &[Part<KitexMethod>], base: Option<&str>) -> Result<String, RenderError> {
    let mut config = match base {
        Some(base) => base::read_json(base)?,
        None => Tree::map([]),
    };
    if base.is_some() {
        for part in parts {
            check_base(&config, &part.place)?;
        }
    }
    let hedges = Hedge::of_all(parts)?;
    if let Some(base) = base
        && hedges.iter().all(Option::is_none)
    {
        return Ok(base.to_owned());
    }
    for (part, hedge) in parts.iter().zip(&hedges) {
        let place = &part.place;
        if hedge.is_none() && base.is_some() {
            continue;
        }
        let entry = config.at(&[&place.section(), "retry", &place.method], exactly);
        match hedge {
            Some(hedge) if hedge.hedges > MOST_HEDGES => {
                return Err(part.cannot("Kitex hedges a call twice at most: set maxAttempts to 3 or 2"));
            }
            Some(hedge) => enable(entry, hedge),
            None => *entry = disabled(),
        }
    }
    base::written(config.to_json())
}

impl KitexMethod {
    fn section(&self) -> String {
        format!("{}/{}", self.client, self.server)
    }
}

fn check_base(config: &Tree, place: &KitexMethod) -> Result<(), RenderError> {
    let section = Node::root(config, exactly).needed(
        &place.section(),
        "add the section, for Kitex keeps what it has while there is none",
    )?;
    let Some(retry) = section.field("retry")? else {
        return Ok(());
    };
    for key in [place.method.as_str(), WILDCARD] {
        if let Some(entry) = retry.field(key)?
            && entry
                .field("enable")?
                .is_some_and(|enable| *enable.tree != false.into())
        {
            return Err(entry.bad(format!(
                "is enabled, and Kitex takes one policy for {}: disable it, for the base is what off looks like",
                place.method
            )));
        }
    }
    let Some(entry) = retry.field(&place.method)? else {
        return Ok(());
    };
    let policy = entry.needed(
        "backup_policy",
        "add one, for Kitex skips an entry without, and off would not be off",
    )?;
    if let Some(cb_policy) = policy.path(&["stop_policy", "cb_policy"])? {
        cb_policy.field("error_rate")?;
    }
    for other in ["failure_policy", "mixed_policy"] {
        if let Some(other) = entry.field(other)? {
            return Err(
                other.bad("stands beside a backup_policy, and Kitex skips an entry with two: take one away")
            );
        }
    }
    Ok(())
}

fn enable(entry: &mut Tree, hedge: &Hedge) {
    let is_new = *entry == Tree::Null;
    *entry.entry("enable", exactly) = true.into();
    *entry.entry("type", exactly) = BACKUP.into();
    let policy = entry.entry("backup_policy", exactly);
    *policy.entry("retry_delay_ms", exactly) = hedge.delay_ms.into();
    let stop = policy.entry("stop_policy", exactly);
    *stop.entry("max_retry_times", exactly) = hedge.hedges.into();
    if is_new {
        *stop.entry("disable_chain_stop", exactly) = false.into();
    }
    let rate = (hedge.percent / 100.0).min(LARGEST_RATE);
    *stop.at(&["cb_policy", "error_rate"], exactly) = rate.into();
    if is_new {
        *policy.entry("retry_same_node", exactly) = false.into();
    }
}

/// An entry that is off. Its policy has no effect; whoever enables it by hand hedges late and little.
fn disabled() -> Tree {
    let mut entry = Tree::Null;
    let policy = Hedge {
        delay_ms: 1000,
        hedges: 1,
        percent: 1.0,
    };
    enable(&mut entry, &policy);
    *entry.entry("enable", exactly) = false.into();
    entry
}
