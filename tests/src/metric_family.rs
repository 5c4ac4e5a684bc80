//! Metrics as programs export them, and as a page tells of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result, bail, ensure};

use crate::repository;

/// A metric as it is asked for: a counter with `_total`, a histogram without `_bucket`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricFamily {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// Empty for none.
    pub unit: String,
    /// What it says.
    pub help: String,
    /// Its labels, `le` apart, with the values that were seen; none where no series was.
    pub labels: BTreeMap<String, BTreeSet<String>>,
}

/// Metrics by name.
pub type MetricFamilies = BTreeMap<String, MetricFamily>;

const METRICS_PAGE: &str = "docs/metrics.md";
const HEADER: [&str; 5] = ["metric", "type", "unit", "labels", "what it says"];

/// Reads an exposition in the format OpenMetrics.
///
/// # Errors
/// When a sample has no metadata, or a line cannot be understood.
pub fn exported_metrics(open_metrics: &str) -> Result<MetricFamilies> {
    let mut families = MetricFamilies::new();
    let mut kinds: BTreeMap<String, (String, String, String)> = BTreeMap::new();
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        if let Some(metadata) = line.strip_prefix("# ") {
            let mut words = metadata.splitn(3, ' ');
            let (what, name) = (words.next().unwrap_or_default(), words.next().context("no name")?);
            let value = words.next().unwrap_or_default().to_owned();
            let known = kinds.entry(name.to_owned()).or_default();
            match what {
                "HELP" => known.2 = value,
                "UNIT" => known.1 = value,
                "TYPE" => known.0 = value,
                other => bail!("no metadata: {other}"),
            }
            let (kind, unit, help) = known.clone();
            let asked = if kind == "counter" {
                format!("{name}_total")
            } else {
                name.to_owned()
            };
            // HELP comes first, and is filed under the name that the type gives it.
            if what == "TYPE" || families.contains_key(&asked) {
                let labels = BTreeMap::new();
                families.insert(
                    asked,
                    MetricFamily {
                        kind,
                        unit,
                        help,
                        labels,
                    },
                );
            }
            continue;
        }
        let (name, labels) = series(line).with_context(|| format!("no sample: {line}"))?;
        let suffixes = ["", "_bucket", "_count", "_sum"].into_iter();
        let base = suffixes
            .filter_map(|suffix| name.strip_suffix(suffix))
            .find(|base| families.contains_key(*base));
        let family = base
            .and_then(|base| families.get_mut(base))
            .with_context(|| format!("no metadata: {line}"))?;
        for (label, value) in labels.into_iter().filter(|(label, _)| label != "le") {
            family.labels.entry(label).or_default().insert(value);
        }
    }
    Ok(families)
}

/// The name and the labels of a series, as expositions and the tests of alerts write it; a sample may follow.
///
/// # Errors
/// When it is none.
pub fn series(written: &str) -> Result<(String, Vec<(String, String)>)> {
    let end = written.find(['{', ' ']).unwrap_or(written.len());
    let (name, rest) = written.split_at(end);
    let Some(mut rest) = rest.strip_prefix('{') else {
        return Ok((name.to_owned(), Vec::new()));
    };
    let mut labels = Vec::new();
    while !rest.starts_with('}') {
        let (label, quoted) = rest.split_once("=\"").context("no label")?;
        let mut value = String::new();
        let mut characters = quoted.chars();
        loop {
            match characters.next().context("a value that does not end")? {
                '"' => break,
                '\\' => match characters.next().context("a value that does not end")? {
                    'n' => value.push('\n'),
                    escaped => value.push(escaped),
                },
                other => value.push(other),
            }
        }
        labels.push((label.trim().to_owned(), value));
        rest = characters.as_str().trim_start_matches([',', ' ']);
    }
    Ok((name.to_owned(), labels))
}

/// The table of metrics under a heading of a page of Markdown.
///
/// # Errors
/// When there is none, or a row lacks a cell.
pub fn documented_metrics(page: &str, heading: &str) -> Result<MetricFamilies> {
    let rows = rows_under(page, heading)?;
    let family = |row: &Vec<String>| {
        let [name, kind, unit, labels, help] = row.as_slice() else {
            bail!("{row:?} has not the cells {HEADER:?}");
        };
        let labels = quoted(labels).into_iter().map(|label| (label, BTreeSet::new()));
        let family = MetricFamily {
            kind: kind.clone(),
            unit: unit.clone(),
            help: help.clone(),
            labels: labels.collect(),
        };
        Ok((name.trim_matches('`').to_owned(), family))
    };
    rows.iter().map(family).collect()
}

/// The labels that the table under a heading explains, each with the values that it lists; none: any.
///
/// # Errors
/// When there is no such table, or a row lacks a cell.
pub fn documented_labels(page: &str, heading: &str) -> Result<BTreeMap<String, BTreeSet<String>>> {
    let rows = rows_under(page, heading)?;
    let label = |row: &Vec<String>| {
        let [label, values, ..] = row.as_slice() else {
            bail!("{row:?} has no values");
        };
        Ok((
            label.trim_matches('`').to_owned(),
            quoted(values).into_iter().collect(),
        ))
    };
    rows.iter().map(label).collect()
}

/// Holds the table of metrics under a heading of `docs/metrics.md` against what is exported; with `HEDGEROW_BLESS` in the
/// environment it is written anew before, by this command.
///
/// # Errors
/// When they differ, or there is no such table.
pub fn metrics_are_documented(heading: &str, exported: MetricFamilies, command: &str) -> Result<()> {
    let path = repository().join(METRICS_PAGE);
    if std::env::var_os("HEDGEROW_BLESS").is_some() {
        let page = with_metrics_documented(&metrics_page()?, heading, &exported)?;
        std::fs::write(path, page)?;
    }
    let without_values = exported.into_iter().map(|(name, mut family)| {
        family.labels.values_mut().for_each(BTreeSet::clear);
        (name, family)
    });
    let exported: MetricFamilies = without_values.collect();
    let documented = documented_metrics(&metrics_page()?, heading)?;
    ensure!(
        documented == exported,
        "{METRICS_PAGE} is not what is exported; mend it with HEDGEROW_BLESS=1 {command}\nit says {documented:#?}\n\
         exported is {exported:#?}"
    );
    Ok(())
}

/// Holds the values of the labels that are exported against those that `docs/metrics.md` lists; none listed: any.
///
/// # Errors
/// When one is not listed, or a label is not explained.
pub fn values_are_documented(exported: &MetricFamilies) -> Result<()> {
    let explained = documented_labels(&metrics_page()?, "Labels")?;
    for (label, values) in exported.values().flat_map(|family| &family.labels) {
        let listed = explained
            .get(label)
            .with_context(|| format!("{METRICS_PAGE} does not explain the label {label}"))?;
        ensure!(
            listed.is_empty() || values.is_subset(listed),
            "{label} has the values {values:?}, and {METRICS_PAGE} lists {listed:?}"
        );
    }
    Ok(())
}

/// `docs/metrics.md`.
///
/// # Errors
/// When it cannot be read.
pub fn metrics_page() -> Result<String> {
    std::fs::read_to_string(repository().join(METRICS_PAGE)).context(METRICS_PAGE)
}

/// The page with the table under a heading written anew.
fn with_metrics_documented(page: &str, heading: &str, families: &MetricFamilies) -> Result<String> {
    let mut table = format!("| {} |\n|{}\n", HEADER.join(" | "), " --- |".repeat(HEADER.len()));
    for (name, family) in families {
        let labels: Vec<String> = family.labels.keys().map(|label| format!("`{label}`")).collect();
        let MetricFamily { kind, unit, help, .. } = family;
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "| `{name}` | {kind} | {unit} | {} | {help} |",
            labels.join(", ")
        );
    }
    let (before, section) = page
        .split_once(&format!("## {heading}\n"))
        .with_context(|| format!("no heading {heading}"))?;
    let start = section
        .find("\n|")
        .with_context(|| format!("no table under {heading}"))?
        + 1;
    let (told, rest) = section.split_at(start);
    let end = rest.find("\n\n").map_or(rest.len(), |end| end + 1);
    Ok(format!("{before}## {heading}\n{told}{table}{}", &rest[end..]))
}

/// The rows of the first table under a heading, its own two lines apart.
fn rows_under(page: &str, heading: &str) -> Result<Vec<Vec<String>>> {
    let (_, section) = page
        .split_once(&format!("## {heading}\n"))
        .with_context(|| format!("no heading {heading}"))?;
    let section = section.split("\n## ").next().unwrap_or_default();
    let lines = section.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|')).skip(2);
    Ok(rows.map(cells).collect())
}

fn cells(row: &str) -> Vec<String> {
    let inner = row.strip_prefix('|').unwrap_or(row);
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// What stands between backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}
