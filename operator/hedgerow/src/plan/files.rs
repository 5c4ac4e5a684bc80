//! The files that a folder stands for.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The ends of names that are read, as kubectl does.
const READ: [&str; 3] = ["json", "yaml", "yml"];

/// The files in a folder that are read, and those in the folders in it if it is to be read `recursive`ly, by name. A symbolic
/// link to a folder is not followed, which could lead in a circle.
///
/// # Errors
/// When it cannot be read, or there is none.
pub(super) fn in_folder(folder: &Path, recursive: bool) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    look(folder, recursive, &mut found)?;
    if found.is_empty() {
        let more = if recursive {
            ""
        } else {
            "; -R reads the folders in it, too"
        };
        return Err(format!(
            "there is no .yaml, .yml or .json file in {}{more}",
            folder.display()
        ));
    }
    Ok(found)
}

fn look(folder: &Path, recursive: bool, found: &mut Vec<PathBuf>) -> Result<(), String> {
    let cannot = |why: io::Error| format!("cannot read {}: {why}", folder.display());
    let entries = fs::read_dir(folder).map_err(cannot)?;
    let mut entries = entries.collect::<io::Result<Vec<_>>>().map_err(cannot)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let kind = entry.file_type().map_err(cannot)?;
        let end = path.extension().and_then(|end| end.to_str());
        if kind.is_dir() {
            if recursive {
                look(&path, recursive, found)?;
            }
        } else if path.is_file() && end.is_some_and(|end| READ.contains(&end)) {
            found.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names found in a folder with some of every kind, as paths from there.
    fn found(recursive: bool) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("more/deep")).unwrap();
        fs::create_dir(at("folder.yaml")).unwrap();
        for name in [
            "b.yml",
            "a.yaml",
            "c.json",
            "d.txt",
            "yaml",
            "more/e.yaml",
            "more/deep/f.json",
        ] {
            fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), at("more/circle")).unwrap();
        std::os::unix::fs::symlink(at("a.yaml"), at("link.yaml")).unwrap();
        let files = in_folder(folder.path(), recursive).unwrap();
        let name = |file: PathBuf| file.strip_prefix(folder.path()).unwrap().display().to_string();
        files.into_iter().map(name).collect()
    }

    #[test]
    fn a_folder_is_its_files_of_yaml_and_json() {
        assert_eq!(found(false), ["a.yaml", "b.yml", "c.json", "link.yaml"]);
    }

    #[test]
    fn the_folders_in_it_are_read_when_that_is_asked_for() {
        let expected = [
            "a.yaml",
            "b.yml",
            "c.json",
            "link.yaml",
            "more/deep/f.json",
            "more/e.yaml",
        ];
        assert_eq!(found(true), expected);
    }

    #[test]
    fn a_folder_with_nothing_to_read_is_told_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let why = in_folder(folder.path(), false).unwrap_err();
        assert!(
            why.starts_with("there is no .yaml, .yml or .json file in ")
                && why.ends_with("-R reads the folders in it, too")
        );
    }
}
