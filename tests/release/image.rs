//! The archive of an image, as `tests/node/pack` makes it: the same program is the same archive, to the byte.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use hedgerow_tests::{repository, scratch};
use serde_json::{Value, json};

/// Copies a program, as somebody else would have it.
fn program(folder: &str, mode: u32, age: Duration) -> PathBuf {
    let path = scratch(folder).unwrap().join("hedgerow");
    fs::write(&path, [0x7f, b'E', b'L', b'F', 1, 2, 3]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    let file = File::options().append(true).open(&path).unwrap();
    file.set_modified(SystemTime::now() - age).unwrap();
    path
}

/// Packs it in its own folder, with this umask, and returns the archive and the digest that is printed.
fn packed(program: &Path, umask: &str) -> (PathBuf, String) {
    let folder = program.parent().unwrap();
    let output = Command::new("bash")
        .args(["-c", "umask \"$1\"; shift; exec \"$@\"", "bash", umask])
        .arg(repository().join("tests/node/pack"))
        .args(["image.tar", "localhost/hedgerow:1", "65532:65532"])
        .arg(program)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stdout).unwrap();
    let digest = said.trim().rsplit(' ').next().unwrap().to_owned();
    (folder.join("image.tar"), digest)
}

/// The bytes of a file in an archive.
fn inside(archive: &Path, file: &str) -> Vec<u8> {
    let output = Command::new("tar")
        .arg("-xOf")
        .arg(archive)
        .arg(file)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

fn blob(archive: &Path, digest: &str) -> Value {
    let hex = digest.strip_prefix("sha256:").unwrap();
    serde_json::from_slice(&inside(archive, &format!("blobs/sha256/{hex}"))).unwrap()
}

#[test]
fn neither_time_nor_place_nor_umask_changes_the_archive() {
    let ours = packed(&program("ours", 0o755, Duration::ZERO), "022");
    let theirs = packed(&program("theirs", 0o700, Duration::from_secs(86_400)), "077");
    assert_eq!(ours.1, theirs.1);
    assert_eq!(fs::read(ours.0).unwrap(), fs::read(theirs.0).unwrap());
}

#[test]
fn what_is_printed_is_the_digest_of_its_manifest() {
    let (archive, digest) = packed(&program("digest", 0o755, Duration::ZERO), "022");
    let hex = digest.strip_prefix("sha256:").unwrap();
    let manifest = scratch("manifest").unwrap().join("manifest");
    fs::write(&manifest, inside(&archive, &format!("blobs/sha256/{hex}"))).unwrap();
    let summed = Command::new("sha256sum").arg(manifest).output().unwrap();
    assert!(String::from_utf8(summed.stdout).unwrap().starts_with(hex));
}

#[test]
fn it_runs_as_nobody_in_particular_and_the_containerfile_says_the_same() {
    let (archive, digest) = packed(&program("config", 0o755, Duration::ZERO), "022");
    let manifest = blob(&archive, &digest);
    let config = &blob(&archive, manifest["config"]["digest"].as_str().unwrap())["config"];
    assert_eq!(
        (&config["User"], &config["Entrypoint"]),
        (&json!("65532:65532"), &json!(["/hedgerow"]))
    );

    let text = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    let (containerfile, toolchain) = (text("operator/Containerfile"), text("rust-toolchain.toml"));
    let channel = toolchain
        .lines()
        .find_map(|line| line.strip_prefix("channel = "))
        .unwrap();
    let channel = channel.trim_matches('"');
    for line in [
        "USER 65532:65532",
        "ENTRYPOINT [\"/hedgerow\"]",
        "FROM scratch",
        &format!("FROM docker.io/library/rust:{channel}-alpine AS build"),
        &format!("ENV RUSTUP_TOOLCHAIN={channel}"),
    ] {
        assert!(containerfile.lines().any(|one| one == line), "{line}");
    }
}
