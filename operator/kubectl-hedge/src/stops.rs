//! `kubectl hedge off` and `on`: stops ordered by a person, through the ConfigMaps `hedgerow-off`.

mod order;
mod wait;
mod write;

use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use hedgerow::cluster::PolicyKey;
use hedgerow::exit::{Failure, Outcome};
use hedgerow_api::names::{OFF_ANNOTATION, OFF_CONFIG_MAP};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;

use self::order::Order;
use self::wait::{Of, until_off};
use self::write::OffSwitch;
use crate::cli::{Extent, OffArgs, OnArgs};
use crate::output::ended;
use crate::session::{Home, Policy, Session, key, say};

/// The longest reason that is kept: what a status shows of it, less who and when.
const LONGEST_REASON: usize = 140;

/// What a command is about.
enum Target {
    Policy(PolicyKey),
    Namespace,
    All,
}

impl Target {
    fn of(extent: &Extent, session: &Session) -> Self {
        match &extent.name {
            Some(name) => Self::Policy(PolicyKey::new(&session.namespace, name)),
            None if extent.all => Self::All,
            None => Self::Namespace,
        }
    }
}

/// Runs `off`.
pub(crate) async fn off(session: &Session, args: &OffArgs) -> Outcome {
    let home = session.home().await;
    let target = Target::of(&args.extent, session);
    let of = match &target {
        Target::Policy(policy) => {
            must_exist(session, policy).await?;
            Of::Policy(&policy.name)
        }
        Target::Namespace => {
            not_the_operators(&home, &session.namespace)?;
            confirm(
                args.extent.yes,
                &format!("Stop hedging in all of namespace {}?", session.namespace),
            )?;
            Of::Namespace
        }
        Target::All => Of::All,
    };
    let why = order_text(args.reason.as_deref(), &who(session).await);
    let switch = switch_of(session, &home, &target)?;
    let changed = switch
        .change(|order| {
            match &target {
                Target::Policy(policy) => order.stop(policy, &why),
                Target::Namespace | Target::All => order.stop_all(&why),
            }
            Ok(())
        })
        .await?;
    let config_map = format!("ConfigMap {}/{OFF_CONFIG_MAP}", switch.namespace);
    let because = because(&changed.before);
    match &target {
        Target::Policy(policy) if changed.before.named.contains(policy) => {
            println!("{policy} is stopped already, by {config_map}; nothing was changed");
        }
        Target::Policy(policy) if changed.before.whole => println!(
            "all of it is stopped already, by {config_map}{because}; {policy} is named there too, and stays stopped when that is \
             lifted"
        ),
        Target::Policy(policy) => println!("{policy} is stopped, by {config_map}"),
        _ if changed.before.whole => {
            println!("it is stopped already, by {config_map}{because}; nothing was changed");
        }
        Target::Namespace => println!(
            "all of namespace {} is stopped, by {config_map}",
            session.namespace
        ),
        Target::All => {
            println!("everything is stopped, by {config_map}");
            if let Home::Assumed(why) = &home {
                eprintln!(
                    "warning: that {} is the operator's namespace is taken for granted ({why}); if it is another, say \
                     --operator-namespace",
                    switch.namespace
                );
            }
        }
    }
    if args.wait {
        until_off(session, &of, Duration::from_secs(args.timeout)).await?;
    }
    ended(0)
}

/// Runs `on`.
pub(crate) async fn on(session: &Session, args: &OnArgs) -> Outcome {
    let home = session.home().await;
    let target = Target::of(&args.extent, session);
    if let Target::Policy(policy) = &target {
        return on_policy(session, &home, policy).await;
    }
    if matches!(target, Target::Namespace) {
        not_the_operators(&home, &session.namespace)?;
        confirm(
            args.extent.yes,
            &format!("Lift the stop of all of namespace {}?", session.namespace),
        )?;
    }
    let switch = switch_of(session, &home, &target)?;
    let changed = switch
        .change(|order| {
            order.lift_all();
            Ok(())
        })
        .await?;
    let what = match &target {
        Target::All => "everything".to_owned(),
        _ => format!("namespace {}", session.namespace),
    };
    if changed.before.whole {
        println!("the stop of {what} is lifted{}", because(&changed.before));
    } else {
        println!("{what} is not stopped as a whole; nothing was changed");
    }
    for policy in &changed.after.named {
        println!(
            "{policy} stays stopped by name: kubectl hedge on {} -n {} lifts it",
            policy.name, policy.namespace
        );
    }
    if matches!(target, Target::Namespace) {
        refuse_under_a_stop_of_everything(session, &home, &what).await?;
    }
    ended(0)
}

async fn on_policy(session: &Session, home: &Home, policy: &PolicyKey) -> Outcome {
    let namespace = &policy.namespace;
    if !home.is(namespace) {
        refuse_under_a_stop_of_everything(session, home, &policy.to_string()).await?;
    }
    let lift = |order: &mut Order| {
        if order.whole {
            let (all, lifts) = whole_of(home, namespace);
            return Err(Failure::failed(format!(
                "{policy} stays off: {all} is stopped as a whole{}. Nothing was changed; {lifts} lifts that",
                because(order)
            )));
        }
        order.lift(policy);
        Ok(())
    };
    let mut lifted = false;
    for switch in switches(session, home, namespace) {
        // Where the operator's may not be read, it cannot be changed either.
        if switch.namespace != namespace
            && switch
                .read()
                .await
                .is_ok_and(|order| !order.named.contains(policy))
        {
            continue;
        }
        match switch.change(lift).await {
            Ok(changed) if changed.before.named.contains(policy) => {
                println!(
                    "the stop of {policy} by ConfigMap {}/{OFF_CONFIG_MAP} is lifted",
                    switch.namespace
                );
                lifted = true;
            }
            Ok(_) => {}
            Err(_) if switch.namespace != namespace => {}
            Err(failure) => return Err(failure),
        }
    }
    let found = session.policy(&policy.name).await?;
    if let Some(still) = still_stopped(&found) {
        return Err(Failure::failed(format!("{policy} stays off: {still}")));
    }
    if lifted {
        println!(
            "hedging comes back through the cooldown and the ramp: kubectl hedge status {} -n {namespace}",
            policy.name
        );
    } else {
        println!("{policy} is not stopped by name; nothing was changed");
    }
    ended(0)
}

/// What stops a policy beside the ConfigMaps: what stands in the policy itself, which belongs to whoever wrote it.
pub(crate) fn still_stopped(policy: &Policy) -> Option<String> {
    let name = key(policy);
    if policy.spec["mode"] == "Disabled" {
        return Some("it says mode: Disabled; change that where the policy is kept".to_owned());
    }
    let annotations = policy.metadata.annotations.as_ref()?;
    let value = annotations.get(OFF_ANNOTATION)?;
    let value = if value.is_empty() {
        String::new()
    } else {
        format!(" ({value})")
    };
    Some(format!(
        "it has the annotation {OFF_ANNOTATION}{value}: kubectl annotate hp {} -n {} {OFF_ANNOTATION}-",
        name.name, name.namespace
    ))
}

/// What the ConfigMaps `hedgerow-off` that concern `namespaces` order, each in words; and where that could not be looked at.
pub(crate) async fn in_force(session: &Session, namespaces: &[String]) -> (Vec<String>, Vec<String>) {
    let home = session.home().await;
    let (mut stops, mut unseen) = (Vec::new(), Vec::new());
    let mut places: Vec<&str> = home.candidates();
    places.extend(
        namespaces
            .iter()
            .map(String::as_str)
            .filter(|namespace| !home.is(namespace)),
    );
    for namespace in places {
        match OffSwitch::new(&session.client, namespace, home.is(namespace))
            .read()
            .await
        {
            Ok(order) => {
                if order.whole {
                    let (all, lifts) = whole_of(&home, namespace);
                    stops.push(format!("{all} is stopped{}: {lifts} lifts it", because(&order)));
                }
                for policy in &order.named {
                    let why = order
                        .why(policy)
                        .map_or_else(String::new, |why| format!(" ({why})"));
                    stops.push(format!(
                        "{policy} is stopped{why}: kubectl hedge on {} -n {} lifts it",
                        policy.name, policy.namespace
                    ));
                }
            }
            Err(why) => unseen.push(format!("ConfigMap {namespace}/{OFF_CONFIG_MAP}: {}", say(&why))),
        }
    }
    (stops, unseen)
}

/// What a stop as a whole in `namespace` stops, and the command that lifts it.
fn whole_of(home: &Home, namespace: &str) -> (String, String) {
    if home.is(namespace) {
        ("everything".to_owned(), "kubectl hedge on --all".to_owned())
    } else {
        (
            format!("namespace {namespace}"),
            format!("kubectl hedge on -n {namespace}"),
        )
    }
}

/// The ConfigMaps that may stop a policy of `namespace`.
fn switches<'a>(session: &'a Session, home: &'a Home, namespace: &'a str) -> Vec<OffSwitch<'a>> {
    let own = OffSwitch::new(&session.client, namespace, home.is(namespace));
    let homes = home.candidates().into_iter().filter(|home| *home != namespace);
    let homes = homes.map(|home| OffSwitch::new(&session.client, home, true));
    std::iter::once(own).chain(homes).collect()
}

fn switch_of<'a>(session: &'a Session, home: &'a Home, target: &Target) -> Result<OffSwitch<'a>, Failure> {
    let namespace = match target {
        Target::All => home.one()?,
        Target::Policy(_) | Target::Namespace => &session.namespace,
    };
    let is_operators = matches!(target, Target::All) || home.is(namespace);
    Ok(OffSwitch::new(&session.client, namespace, is_operators))
}

/// Refuses when everything is stopped, so that nobody believes that `what` hedges again.
async fn refuse_under_a_stop_of_everything(
    session: &Session,
    home: &Home,
    what: &str,
) -> Result<(), Failure> {
    // With several installs nobody can tell which one works for it; a stop of either is said.
    for namespace in home.candidates() {
        match OffSwitch::new(&session.client, namespace, true).read().await {
            Ok(order) if order.whole => {
                return Err(Failure::failed(format!(
                    "{what} stays off: everything is stopped by ConfigMap {namespace}/{OFF_CONFIG_MAP}{}. kubectl hedge on --all \
                     lifts that",
                    because(&order)
                )));
            }
            Ok(_) => {}
            Err(why) => eprintln!(
                "note: whether everything is stopped is not known: ConfigMap {namespace}/{OFF_CONFIG_MAP}: {}",
                say(&why)
            ),
        }
    }
    Ok(())
}

/// In the operator's namespace a stop of all is one of everything: that has to be said.
fn not_the_operators(home: &Home, namespace: &str) -> Result<(), Failure> {
    if home.is(namespace) {
        return Err(Failure::invalid(format!(
            "{namespace} is the operator's namespace, where a stop is one of everything: say --all if you mean that, or name a \
             policy"
        )));
    }
    Ok(())
}

/// A typing error must not look like a stop.
async fn must_exist(session: &Session, policy: &PolicyKey) -> Result<(), Failure> {
    match session.policies(Some(&policy.namespace)).await {
        Ok(policies) if policies.iter().any(|one| key(one) == *policy) => Ok(()),
        Ok(_) => Err(Failure::failed(format!(
            "{}. Nothing was stopped",
            session.there_is_no(&policy.name).await
        ))),
        // A stop must not hang on the right to read policies.
        Err(failure) => {
            eprintln!("warning: whether {policy} exists could not be looked up: {failure}");
            Ok(())
        }
    }
}

fn confirm(yes: bool, question: &str) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::invalid(format!(
            "{question} Say --yes, or name a policy"
        )));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    if read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        Ok(())
    } else {
        Err(Failure::failed("nothing was changed"))
    }
}

/// Who asks, as the API server knows them.
async fn who(session: &Session) -> String {
    let reviews: Api<SelfSubjectReview> = Api::all(session.client.clone());
    let asked = reviews
        .create(&PostParams::default(), &SelfSubjectReview::default())
        .await;
    let user = asked.ok().and_then(|review| review.status?.user_info?.username);
    user.unwrap_or_else(|| "somebody".to_owned())
}

/// The line that is kept of a stop: why, who and when.
fn order_text(reason: Option<&str>, who: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect()
    };
    let reason: String = plain(reason.unwrap_or_default())
        .trim()
        .chars()
        .take(LONGEST_REASON)
        .collect();
    let now = Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default();
    let by = format!("by {} at {now}", plain(who));
    if reason.is_empty() {
        by
    } else {
        format!("{reason}, {by}")
    }
}

/// Why everything in the breadth of an order is stopped, in brackets.
fn because(order: &Order) -> String {
    match order.why_all().filter(|_| order.whole) {
        Some(why) => format!(" ({why})"),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_of_a_stop_is_one_line_of_why_who_and_when() {
        let text = order_text(Some(" INC-7\nsecond line "), "alice");
        assert!(text.starts_with("INC-7 second line, by alice at 2"), "{text}");
        assert!(order_text(None, "alice").starts_with("by alice at 2"));
        let long = order_text(Some(&"x".repeat(1000)), "alice");
        assert!(
            long.starts_with(&format!("{}, by alice", "x".repeat(140))),
            "{long}"
        );
    }
}
