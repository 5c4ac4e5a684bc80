//! The table of values in the chart's README is what `values.yaml` says.

use hedgerow_tests::{Helm, repository};
use serde_json::Value;

use crate::shared::{holds, text};

const BEGIN: &str = "<!-- written from values.yaml by `make manifests` -->\n";
const END: &str = "<!-- end -->\n";

#[test]
fn the_table_of_values_is_what_the_values_say() {
    let readme = text("charts/hedgerow/README.md");
    let (before, rest) = readme.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once(END).unwrap();
    let expected = format!("{before}{BEGIN}\n{}\n{END}{after}", table());
    holds(&Helm::chart().join("README.md"), &expected, "make manifests");
}

/// One row for each value, in the order of the file: its path, its default, and the first paragraph of its comment.
fn table() -> String {
    let file = text("charts/hedgerow/values.yaml");
    let values: Value = serde_saphyr::from_str(&file).unwrap();
    let mut table = String::from("| value | default | |\n| --- | --- | --- |\n");
    let (mut path, mut comment): (Vec<&str>, Vec<&str>) = Default::default();
    for line in file.lines() {
        let bare = line.trim_start();
        if let Some(said) = bare.strip_prefix('#') {
            comment.push(said.trim());
        } else if let Some((key, _)) = bare.split_once(':').filter(|_| !bare.starts_with('-')) {
            let depth = (line.len() - bare.len()) / 2;
            // What is in a value that is told whole is no value of its own.
            if depth == 0 || !is_row(&values, &path[..depth.min(path.len())]) {
                path.truncate(depth);
                path.push(key);
                row(&mut table, &values, &path, &comment);
            }
            comment.clear();
        } else {
            comment.clear();
        }
    }
    table
}

/// Whether the value at `path` is told whole: all but maps that have keys, and those whose keys are the user's.
fn is_row(values: &Value, path: &[&str]) -> bool {
    let value = values.pointer(&format!("/{}", path.join("/"))).unwrap();
    let users = ["labels", "limits", "requests"].contains(path.last().unwrap());
    users || value.as_object().is_none_or(serde_json::Map::is_empty)
}

fn row(table: &mut String, values: &Value, path: &[&str], comment: &[&str]) {
    let value = values.pointer(&format!("/{}", path.join("/"))).unwrap();
    let default = if is_row(values, path) {
        format!("`{value}`")
    } else if comment.is_empty() {
        return;
    } else {
        String::new()
    };
    let first: Vec<_> = comment
        .iter()
        .take_while(|line| !line.is_empty())
        .copied()
        .collect();
    let said = first.join(" ").replace('|', "\\|");
    *table += &format!("| `{}` | {default} | {said} |\n", path.join("."));
}

#[test]
fn the_schema_knows_every_value_and_no_other() {
    let schema: Value = serde_json::from_str(&text("charts/hedgerow/values.schema.json")).unwrap();
    let values: Value = serde_saphyr::from_str(&text("charts/hedgerow/values.yaml")).unwrap();
    let (known, said) = (&schema["properties"], &values);
    let mut differing = Vec::new();
    compare(known, said, "", &mut differing);
    // What a parent chart hands down, and what only some containers have.
    assert_eq!(
        differing,
        ["enabled", "global", "resources.claims"],
        "{}",
        repository().display()
    );
}

/// The paths that one of them has and the other has not.
fn compare(known: &Value, said: &Value, path: &str, differing: &mut Vec<String>) {
    let (Some(known), Some(said)) = (known.as_object(), said.as_object()) else {
        return;
    };
    let mut keys: Vec<_> = known.keys().chain(said.keys()).collect();
    keys.sort();
    keys.dedup();
    for key in keys {
        let path = format!("{path}.{key}").trim_start_matches('.').to_owned();
        match (known.get(key), said.get(key)) {
            (Some(known), Some(said)) => compare(&known["properties"], said, &path, differing),
            _ => differing.push(path),
        }
    }
}
