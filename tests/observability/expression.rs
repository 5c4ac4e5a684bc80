//! What a PromQL expression asks for.

use std::collections::{BTreeMap, BTreeSet};

use hedgerow_tests::{MetricFamilies, documented_labels, documented_metrics, series};

use crate::promtool::read;

/// A label, with the values that it may or may not have.
type Matcher = (String, Vec<String>);

/// What `docs/metrics.md` says that the operator exports; its tests hold it against the operator.
pub(crate) struct Documented {
    metrics: MetricFamilies,
    labels: BTreeMap<String, BTreeSet<String>>,
}

impl Documented {
    pub(crate) fn read() -> Self {
        let page = read("docs/metrics.md");
        Self {
            metrics: documented_metrics(&page, "The operator").unwrap(),
            labels: documented_labels(&page, "Labels").unwrap(),
        }
    }

    /// Fails unless every metric in `expression` is exported, with the labels and the values that it is matched by.
    pub(crate) fn knows_all_of(&self, expression: &str) {
        let selectors = selectors(expression);
        assert!(!selectors.is_empty(), "no metric of ours in {expression}");
        for (name, labels) in selectors {
            self.knows(&name, &labels, expression);
        }
    }

    /// The same of one series.
    pub(crate) fn knows_series(&self, written: &str) {
        let (name, labels) = series(written).unwrap();
        // Of the scrape, and not of the operator.
        let ours = labels.into_iter().filter(|(label, _)| label != "pod");
        let labels: Vec<_> = ours.map(|(label, value)| (label, vec![value])).collect();
        self.knows(&name, &labels, written);
    }

    fn knows(&self, name: &str, labels: &[Matcher], context: &str) {
        let suffixes = ["", "_bucket", "_count", "_sum"];
        let bases = suffixes.iter().filter_map(|suffix| name.strip_suffix(suffix));
        let family = bases.filter_map(|base| self.metrics.get(base)).next();
        let family = family.unwrap_or_else(|| panic!("{name} is not exported: {context}"));
        for (label, values) in labels.iter().filter(|(label, _)| label != "le") {
            assert!(
                family.labels.contains_key(label),
                "{name} has no label {label}: {context}"
            );
            let listed = &self.labels[label];
            let unlisted = values
                .iter()
                .find(|value| !listed.is_empty() && !listed.contains(*value));
            assert_eq!(unlisted, None, "not a value of {label}: {context}");
        }
    }
}

/// Each metric of ours with what it is matched by.
fn selectors(expression: &str) -> Vec<(String, Vec<Matcher>)> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(start) = rest.find("hedgerow_") {
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let matchers = after.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let labels = matchers.map_or_else(Vec::new, |(matchers, _)| {
            matchers.split("\",").map(matcher).collect()
        });
        found.push((name.to_owned(), labels));
        rest = after;
    }
    found
}

fn matcher(written: &str) -> Matcher {
    let (label, value) = written.split_at(written.find(['=', '!']).expect("a matcher"));
    let value = value.trim_start_matches(['=', '!', '~']).trim().trim_matches('"');
    // A variable of the dashboard has any value.
    let values = value.split('|').filter(|value| !value.starts_with('$'));
    (label.trim().to_owned(), values.map(str::to_owned).collect())
}

#[test]
fn metrics_and_matchers_are_found() {
    let expression = r#"sum by (object) (rate(hedgerow_a_total{x=~"b|c", y!~"d"}[10m])) > hedgerow_e or hedgerow_f{z="$z"}"#;
    let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect::<Vec<_>>();
    assert_eq!(
        selectors(expression),
        [
            (
                "hedgerow_a_total".to_owned(),
                vec![
                    ("x".to_owned(), owned(&["b", "c"])),
                    ("y".to_owned(), owned(&["d"]))
                ]
            ),
            ("hedgerow_e".to_owned(), vec![]),
            ("hedgerow_f".to_owned(), vec![("z".to_owned(), vec![])]),
        ]
    );
}
