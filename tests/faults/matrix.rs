//! docs/faults.md says which test is about which fault: that is kept true here.

use std::collections::BTreeSet;
use std::fs;

use hedgerow_tests::repository;

/// The groups of this binary, whose faults are named in the table by the group's file and their own name.
fn groups() -> BTreeSet<String> {
    let groups: [(&str, &[&str]); 5] = [
        ("prometheus", &crate::prometheus::FAULTS),
        ("api_server", &crate::api_server::FAULTS),
        ("control_plane", &crate::control_plane::FAULTS),
        ("refused", &crate::refused::FAULTS),
        ("objects", &crate::objects::FAULTS),
    ];
    let named = |(group, faults): (&str, &[&str])| {
        let names = faults
            .iter()
            .map(|fault| format!("tests/faults/{group}.rs#{fault}"));
        names.collect::<Vec<_>>()
    };
    groups.into_iter().flat_map(named).collect()
}

#[test]
fn every_fault_is_in_the_table_and_every_test_of_the_table_exists() {
    let text = fs::read_to_string(repository().join("docs/faults.md")).unwrap();
    let rows: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains(".rs"))
        .collect();
    assert!(rows.len() > 40, "the table has {} rows", rows.len());
    let mut shown = BTreeSet::new();
    for row in rows {
        let tests: Vec<_> = row.split('`').filter(|part| part.contains(".rs")).collect();
        assert!(!tests.is_empty(), "no test: {row}");
        for test in tests {
            if test.contains('#') {
                assert!(groups().contains(test), "no such fault: {test}");
                shown.insert(test.to_owned());
            } else {
                let (file, name) = test.split_once("::").unwrap_or_else(|| panic!("no name: {test}"));
                let source =
                    fs::read_to_string(repository().join(file)).unwrap_or_else(|_| panic!("no file {file}"));
                assert!(source.contains(&format!("fn {name}(")), "no {name} in {file}");
            }
        }
    }
    let missing: Vec<_> = groups()
        .into_iter()
        .filter(|fault| !shown.contains(fault))
        .collect();
    assert!(missing.is_empty(), "not in docs/faults.md: {missing:?}");
}
