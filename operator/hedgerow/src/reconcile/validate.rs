//! Whether a policy can be followed. Pure.

use std::sync::Arc;
use std::time::Duration;

use hedgerow_api::{FieldError, HedgePolicySpec};
use hedgerow_tuner::{Reason, Stop};

use crate::cluster::PolicyEntry;
use crate::compile::compile;
use crate::forms::one_place_twice;
use crate::index::Follow;
use crate::settings::{DeclaredSource, Sources};
use crate::status::Refusal;

/// What became of looking at a policy.
pub(super) enum Verdict {
    /// It can be followed, if only to say that it is off.
    Follow(Box<Follow>),
    /// Nobody can say what it asks for.
    Invalid(Refusal),
}

/// Looks at a policy. `older` are the policies of its namespace that came before it.
pub(super) fn validate(
    entry: &PolicyEntry,
    older: impl Iterator<Item = Arc<PolicyEntry>>,
    sources: &Sources,
    propagation: Duration,
    stop: Option<Stop>,
) -> Verdict {
    let invalid = |message: String| {
        Verdict::Invalid(Refusal {
            reason: Reason::Invalid,
            message,
        })
    };
    let policy = match &entry.policy {
        Ok(policy) => policy,
        Err(why) => {
            return invalid(format!(
                "the object cannot be understood: {why}; apply it again as it is documented"
            ));
        }
    };
    let spec = &policy.spec;
    if let Err(errors) = hedgerow_api::validate(spec) {
        return invalid(listed(&errors));
    }
    if let Some(why) = one_place_twice(spec) {
        return invalid(why);
    }
    let unavailable = |message: String| Refusal {
        reason: Reason::SourceNotAvailable,
        message,
    };
    let namespace = &entry.key.namespace;
    let (source, refusal) = match sources.available(&spec.source, namespace) {
        Ok(source) => (source.clone(), crowded(spec, older, source).map(unavailable)),
        // It is followed all the same, so that its documents are there and say that they are off.
        Err(why) => (
            DeclaredSource::plain(&spec.source, ""),
            Some(unavailable(why.to_string())),
        ),
    };
    match compile(spec, namespace, &source, propagation) {
        Ok(compiled) => Verdict::Follow(Box::new(Follow {
            uid: entry.uid.clone(),
            spec: Arc::new(spec.clone()),
            compiled: Arc::new(compiled),
            refusal,
            stop,
        })),
        Err(why) => invalid(why.to_string()),
    }
}

/// Why the targets of a policy are too many for its source, if they are.
fn crowded(
    spec: &HedgePolicySpec,
    older: impl Iterator<Item = Arc<PolicyEntry>>,
    source: &DeclaredSource,
) -> Option<String> {
    let most = source.ceilings.max_targets_per_namespace?;
    let own = spec.targets.len();
    let others: usize = older
        .filter_map(|other| other.policy.as_ref().ok().cloned())
        .filter(|other| other.spec.source == spec.source)
        .map(|other| other.spec.targets.len())
        .sum();
    (others + own > most).then(|| {
        format!(
            "spec.targets: source {} allows {most} targets in a namespace, older policies have {others} and this one has \
             {own}; remove some, or ask the administrator to raise ceilings.maxTargetsPerNamespace",
            source.settings.name
        )
    })
}

/// The first errors, and how many more there are.
fn listed(errors: &[FieldError]) -> String {
    const LISTED: usize = 3;
    let mut text = errors
        .iter()
        .take(LISTED)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join("; ");
    if errors.len() > LISTED {
        text.push_str(&format!("; and {} more", errors.len() - LISTED));
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use hedgerow_api::HedgePolicy;
    use hedgerow_tuner::Timestamp;
    use serde_json::{Value, json};

    use super::*;
    use crate::fixtures::{policy, written_spec};
    use crate::settings::Settings;

    const PROPAGATION: Duration = Duration::from_secs(90);

    fn entry(spec: &Value) -> PolicyEntry {
        let object = json!({
            "apiVersion": "hedgerow.dev/v1alpha1", "kind": "HedgePolicy", "metadata": { "name": "kb-search" }, "spec": spec,
        });
        let policy_object = serde_json::from_value::<HedgePolicy>(object);
        PolicyEntry {
            key: policy(),
            uid: "uid-1".to_owned(),
            created: Timestamp::default(),
            generation: 1,
            resource_version: "1".to_owned(),
            annotations: BTreeMap::new(),
            claims: BTreeSet::new(),
            bases: BTreeSet::new(),
            policy: policy_object.map(Arc::new).map_err(|why| why.to_string()),
            status: None,
        }
    }

    fn sources(extra: &str) -> Sources {
        let text = format!("sources: [{{ name: default, url: 'http://p', namespaces: [helpdesk]{extra} }}]");
        Settings::parse("operator.yaml", &text).unwrap().sources
    }

    fn refusal(entry: &PolicyEntry, older: Vec<Arc<PolicyEntry>>, sources: &Sources) -> Option<Refusal> {
        match validate(entry, older.into_iter(), sources, PROPAGATION, None) {
            Verdict::Follow(follow) => follow.refusal,
            Verdict::Invalid(refusal) => Some(refusal),
        }
    }

    #[test]
    fn a_valid_policy_is_followed() {
        assert_eq!(refusal(&entry(&written_spec()), Vec::new(), &sources("")), None);
    }

    #[test]
    fn an_object_that_cannot_be_decoded_is_invalid() {
        let refusal = refusal(&entry(&json!({ "targets": 3 })), Vec::new(), &sources("")).unwrap();
        assert_eq!(refusal.reason, Reason::Invalid);
        assert!(
            refusal.message.starts_with("the object cannot be understood"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn what_the_schema_would_refuse_is_invalid_and_names_the_field() {
        let mut spec = written_spec();
        spec["targets"][0]["delay"] = json!({ "percentile": "0" });
        let refusal = refusal(&entry(&spec), Vec::new(), &sources("")).unwrap();
        assert_eq!(refusal.reason, Reason::Invalid);
        assert!(
            refusal.message.starts_with("spec.targets[0].delay.percentile: "),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn two_targets_in_one_place_of_a_document_are_invalid_before_they_hedge() {
        let mut spec = written_spec();
        let mut second = spec["targets"][0].clone();
        second["name"] = json!("faq-read");
        spec["targets"] = json!([spec["targets"][0], second]);
        let at = |name: &str| json!({ "name": name, "envoyRoute": { "cluster": "kb" } });
        spec["publish"] = json!([{
            "configMap": "kb-envoy", "key": "rds.yaml", "format": "EnvoyRoute",
            "base": { "configMap": "kb-envoy-base", "key": "rds.yaml" }, "targets": [at("shard-read"), at("faq-read")],
        }]);
        let refusal = refusal(&entry(&spec), Vec::new(), &sources("")).unwrap();
        assert_eq!(refusal.reason, Reason::Invalid);
        assert!(
            refusal
                .message
                .starts_with("spec.publish[0].targets[1]: faq-read has the same place in kb-envoy/rds.yaml"),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn a_source_that_nobody_declared_is_not_available() {
        let mut spec = written_spec();
        spec["source"] = json!("other");
        let refusal = refusal(&entry(&spec), Vec::new(), &sources("")).unwrap();
        assert_eq!(refusal.reason, Reason::SourceNotAvailable);
        assert!(
            refusal
                .message
                .starts_with("spec.source: there is no source \"other\""),
            "{}",
            refusal.message
        );
    }

    #[test]
    fn the_targets_of_a_namespace_are_limited_and_older_policies_come_first() {
        let limited = sources(", ceilings: { maxTargetsPerNamespace: 1 }");
        let policy = entry(&written_spec());
        assert_eq!(refusal(&policy, Vec::new(), &limited), None);
        let older = vec![Arc::new(policy.clone())];
        let refusal = refusal(&policy, older, &limited).unwrap();
        assert_eq!(refusal.reason, Reason::SourceNotAvailable);
        assert!(
            refusal.message.contains("maxTargetsPerNamespace"),
            "{}",
            refusal.message
        );
    }
}
