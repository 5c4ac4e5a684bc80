//! Alerts, from the rules API: an alert that does not fire has no series. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use hedgerow_tuner::{Alert, Signal, SignalValue, Unknown, UnknownReason};
use serde::Deserialize;

use crate::answer;
use crate::clock::Moment;
use crate::failure::{Failure, quote};
use crate::signal::unread;

/// The alerting rules of a source.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rules {
    by_name: BTreeMap<String, Vec<Rule>>,
}

/// One alerting rule.
#[derive(Debug, PartialEq)]
struct Rule {
    /// Those that every instance of its alert has.
    labels: BTreeMap<String, String>,
    health: String,
    error: Option<String>,
    interval: Duration,
    /// When it was last evaluated, in milliseconds on the server's clock.
    evaluated_ms: Option<i64>,
    alerts: Vec<Active>,
}

/// One active instance of an alert.
#[derive(Debug, Deserialize, PartialEq)]
struct Active {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    state: String,
}

#[derive(Deserialize)]
struct Data {
    groups: Vec<RawGroup>,
}

#[derive(Deserialize)]
struct RawGroup {
    #[serde(default)]
    interval: f64,
    #[serde(default)]
    rules: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    name: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    health: String,
    last_error: Option<String>,
    #[serde(default)]
    last_evaluation: String,
    #[serde(default)]
    alerts: Option<Vec<Active>>,
}

impl Rules {
    /// Decodes an answer of the rules API.
    pub(crate) fn decode(body: &[u8]) -> Result<Self, Failure> {
        let (data, _): (Data, _) = answer::data(body)?;
        let mut by_name: BTreeMap<String, Vec<Rule>> = BTreeMap::new();
        for group in data.groups {
            let interval = Duration::try_from_secs_f64(group.interval).unwrap_or_default();
            for rule in group.rules.into_iter().filter(|rule| rule.kind == "alerting") {
                by_name.entry(rule.name).or_default().push(Rule {
                    labels: rule.labels,
                    health: rule.health,
                    error: rule.last_error.filter(|error| !error.is_empty()),
                    interval,
                    evaluated_ms: rule
                        .last_evaluation
                        .parse::<jiff::Timestamp>()
                        .ok()
                        .map(jiff::Timestamp::as_millisecond),
                    alerts: rule.alerts.unwrap_or_default(),
                });
            }
        }
        Ok(Self { by_name })
    }

    /// Takes in the rules of another answer.
    pub(crate) fn extend(&mut self, other: Self) {
        for (name, rules) in other.by_name {
            self.by_name.entry(name).or_default().extend(rules);
        }
    }

    /// The reading of the alert `name`. Where a label pair is enforced only instances that carry it count, and a rule whose own
    /// labels say another value is not there: what is wrong with it is nothing to those who may not see its instances.
    ///
    /// Several rules may have one name: the worst state of all counts, and all must be evaluated.
    pub(crate) fn reading(&self, name: &str, enforced: Option<&(String, String)>, moment: Moment) -> Signal {
        let told = |reason, message: String| {
            unread(Unknown::new(reason, format!("alert {name}: {message}")), moment)
        };
        let others = |rule: &&Rule| enforced.is_some_and(|enforced| rule.is_of_others(enforced));
        let rules: Vec<_> = self
            .by_name
            .get(name)
            .into_iter()
            .flatten()
            .filter(|rule| !others(rule))
            .collect();
        if rules.is_empty() {
            return told(
                UnknownReason::AlertNotFound,
                "the source has no alerting rule of that name; is it spelled so, and loaded by this source?"
                    .to_owned(),
            );
        }
        let state = rules
            .iter()
            .flat_map(|rule| &rule.alerts)
            .filter(|alert| enforced.is_none_or(|(label, value)| alert.labels.get(label) == Some(value)))
            .map(|alert| match alert.state.as_str() {
                "firing" => Alert::Firing,
                "pending" => Alert::Pending,
                _ => Alert::Inactive,
            })
            .max_by_key(|state| match state {
                Alert::Inactive => 0,
                Alert::Pending => 1,
                Alert::Firing => 2,
            })
            .unwrap_or(Alert::Inactive);
        // An alert that fires is believed even while another rule of its name fails: off is the safe direction.
        if state != Alert::Firing {
            let server_now = moment.skew.server(moment.now_ms);
            // The text of an error may quote any series that the rule reads.
            let may_quote = enforced.is_none();
            if let Some(why) = rules.iter().find_map(|rule| rule.stale(server_now, may_quote)) {
                return told(UnknownReason::Stale, why);
            }
        }
        let evaluated = rules.iter().filter_map(|rule| rule.evaluated_ms).min();
        Signal {
            at: evaluated.map_or(moment.now(), |server_ms| moment.ours(server_ms)),
            scrape_interval: rules.iter().map(|rule| rule.interval).max(),
            value: Ok(SignalValue::Alert(state)),
        }
    }
}

impl Rule {
    /// Whether no instance of its alert carries this label pair. What a template makes of a label is not known before.
    fn is_of_others(&self, (label, value): &(String, String)) -> bool {
        let fixed = |other: &&String| !other.contains("{{");
        self.labels
            .get(label)
            .filter(fixed)
            .is_some_and(|other| other != value)
    }

    /// Why its state is not to be believed.
    fn stale(&self, server_now_ms: i64, may_quote: bool) -> Option<String> {
        if self.health != "ok" {
            let error = self
                .error
                .as_deref()
                .filter(|_| may_quote)
                .map(|error| format!(": {}", quote(error)));
            return Some(format!(
                "the rule's health is {:?}{}; mend the rule",
                quote(&self.health),
                error.unwrap_or_default()
            ));
        }
        let Some(evaluated) = self.evaluated_ms else {
            return Some("the source does not say when the rule was evaluated".to_owned());
        };
        let age = u64::try_from(server_now_ms.saturating_sub(evaluated)).unwrap_or(0);
        let limit = self.interval.saturating_mul(3);
        (u128::from(age) > limit.as_millis()).then(|| {
            format!(
                "the rule was last evaluated {} s ago, more than three of its intervals of {} s; is its rule group too slow?",
                age / 1000,
                self.interval.as_secs()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Skew;

    /// 2026-01-01T00:00:00Z
    const NOW: i64 = 1_767_225_600_000;

    const MOMENT: Moment = Moment {
        offset: Duration::ZERO,
        skew: Skew::NONE,
        now_ms: NOW,
    };

    fn rule(name: &str, health: &str, evaluated: &str, alerts: &str) -> String {
        format!(
            r#"{{"type":"alerting","name":"{name}","health":"{health}","lastEvaluation":"{evaluated}","lastError":"","alerts":{alerts}}}"#
        )
    }

    fn rules(rules: &[String]) -> Rules {
        let body = format!(
            r#"{{"status":"success","data":{{"groups":[{{"name":"g","interval":15,"rules":[{}]}}]}}}}"#,
            rules.join(",")
        );
        Rules::decode(body.as_bytes()).unwrap()
    }

    fn read(rules: &Rules, enforced: Option<&(String, String)>) -> Result<SignalValue, Unknown> {
        rules.reading("Down", enforced, MOMENT).value
    }

    const FRESH: &str = "2025-12-31T23:59:50.123456789Z";

    #[test]
    fn the_states_of_an_alert() {
        for (alerts, state) in [
            ("[]", Alert::Inactive),
            ("null", Alert::Inactive),
            (r#"[{"state":"pending","labels":{}}]"#, Alert::Pending),
            (
                r#"[{"state":"pending","labels":{}},{"state":"firing","labels":{}}]"#,
                Alert::Firing,
            ),
        ] {
            let rules = rules(&[rule("Down", "ok", FRESH, alerts)]);
            assert_eq!(read(&rules, None), Ok(SignalValue::Alert(state)));
        }
    }

    #[test]
    fn a_rule_that_does_not_exist_is_no_quiet_alert() {
        let rules = rules(&[rule("Other", "ok", FRESH, "[]")]);
        assert_eq!(
            read(&rules, None).unwrap_err().reason,
            UnknownReason::AlertNotFound
        );
    }

    #[test]
    fn a_recording_rule_is_no_alert() {
        let body = br#"{"status":"success","data":{"groups":[{"interval":15,"rules":[{"type":"recording","name":"Down","health":"ok"}]}]}}"#;
        assert_eq!(
            read(&Rules::decode(body).unwrap(), None).unwrap_err().reason,
            UnknownReason::AlertNotFound
        );
    }

    #[test]
    fn a_rule_that_fails_or_is_not_evaluated_is_stale() {
        for (health, evaluated) in [
            ("err", FRESH),
            ("unknown", "0001-01-01T00:00:00Z"),
            ("ok", "0001-01-01T00:00:00Z"),
            ("ok", "2025-12-31T23:59:14Z"),
            ("ok", ""),
        ] {
            let rules = rules(&[rule("Down", health, evaluated, "[]")]);
            assert_eq!(
                read(&rules, None).unwrap_err().reason,
                UnknownReason::Stale,
                "{health} {evaluated}"
            );
        }
        // 45 s are three intervals; an offset in the time is understood.
        let rules = rules(&[rule("Down", "ok", "2026-01-01T00:59:16+01:00", "[]")]);
        assert!(read(&rules, None).is_ok());
    }

    #[test]
    fn of_an_enforced_label_only_instances_that_carry_it_count() {
        let rules = rules(&[rule(
            "Down",
            "ok",
            FRESH,
            r#"[{"state":"firing","labels":{"namespace":"other"}}]"#,
        )]);
        let mine = ("namespace".to_owned(), "helpdesk".to_owned());
        let other = ("namespace".to_owned(), "other".to_owned());
        assert_eq!(read(&rules, Some(&mine)), Ok(SignalValue::Alert(Alert::Inactive)));
        assert_eq!(read(&rules, Some(&other)), Ok(SignalValue::Alert(Alert::Firing)));
    }

    /// An error of a rule quotes series, those of other namespaces among them.
    #[test]
    fn of_an_enforced_label_nothing_is_told_of_the_rules_of_others() {
        let error = r#"found duplicate series for the match group {namespace=\"other\"}"#;
        let rule = |labels: &str| {
            format!(
                r#"{{"type":"alerting","name":"Down","health":"err","lastEvaluation":"{FRESH}","lastError":"{error}",
                "labels":{labels},"alerts":[]}}"#
            )
        };
        let (anyones, others) = (rule(r#"{"severity":"page"}"#), rule(r#"{"namespace":"other"}"#));
        let mine = ("namespace".to_owned(), "helpdesk".to_owned());
        let told = |written: &[String], enforced| read(&rules(written), enforced).unwrap_err();

        assert!(
            told(std::slice::from_ref(&anyones), None)
                .message
                .contains("duplicate series")
        );
        let unknown = told(std::slice::from_ref(&anyones), Some(&mine));
        assert_eq!(unknown.reason, UnknownReason::Stale);
        assert!(!unknown.message.contains("series"), "{}", unknown.message);

        let absent = told(&[], Some(&mine));
        assert_eq!(absent.reason, UnknownReason::AlertNotFound);
        assert_eq!(told(std::slice::from_ref(&others), Some(&mine)), absent);
        // Nor does a rule of theirs that fails make mine unknown.
        let quiet = self::rule("Down", "ok", FRESH, "[]");
        let both = rules(&[quiet, others.clone()]);
        assert_eq!(read(&both, Some(&mine)), Ok(SignalValue::Alert(Alert::Inactive)));
        let theirs = ("namespace".to_owned(), "other".to_owned());
        assert_eq!(told(&[others], Some(&theirs)).reason, UnknownReason::Stale);
        // Of whom its instances are is known when they are there.
        let anyones = rule(r#"{"namespace":"{{ $labels.namespace }}"}"#);
        assert_eq!(told(&[anyones], Some(&mine)).reason, UnknownReason::Stale);
    }

    #[test]
    fn of_rules_with_one_name_the_worst_counts_and_all_must_be_evaluated() {
        let quiet = rule("Down", "ok", FRESH, "[]");
        let failing = rule("Down", "err", FRESH, "[]");
        let firing = rule("Down", "ok", FRESH, r#"[{"state":"firing","labels":{}}]"#);
        assert_eq!(
            read(&rules(&[quiet.clone(), firing.clone()]), None),
            Ok(SignalValue::Alert(Alert::Firing))
        );
        assert_eq!(
            read(&rules(&[quiet, failing.clone()]), None).unwrap_err().reason,
            UnknownReason::Stale
        );
        assert_eq!(
            read(&rules(&[failing, firing]), None),
            Ok(SignalValue::Alert(Alert::Firing))
        );
    }
}
