//! Servers as processes that end with the test.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Where the real programs of these names are. Builds nothing: when one is absent the test fails and says which command
/// builds it.
pub(crate) fn parts<const N: usize>(names: [&str; N]) -> [PathBuf; N] {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/parts/build");
    let found = Command::new(script)
        .args(["--no-build", "--path"])
        .args(names)
        .output()
        .unwrap();
    assert!(
        found.status.success(),
        "`tests/parts/build {}` builds what this test needs: {}",
        names.join(" "),
        String::from_utf8_lossy(&found.stderr)
    );
    let text = String::from_utf8(found.stdout).unwrap();
    let paths: Vec<PathBuf> = text.lines().map(PathBuf::from).collect();
    paths.try_into().unwrap()
}

/// A port that was free a moment ago.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// A folder for one server. It goes with the server.
pub(crate) fn folder() -> PathBuf {
    tempfile::tempdir().unwrap().keep()
}

/// A running program; it ends, and its `folder` goes, when this is dropped or this process is gone.
#[derive(Debug)]
pub(crate) struct Running(#[expect(dead_code, reason = "its standard input is held open")] Child);

/// Runs `program` in `folder` and waits until `http://127.0.0.1:port/path` answers with 200.
pub(crate) fn run(folder: &Path, program: &Path, args: &[&str], port: u16, path: &str) -> Running {
    // The shell ends the program when this process is gone, however it went: then its standard input closes.
    let guard = Command::new("sh")
        .arg("-c")
        .arg("folder=$1; shift; cd \"$folder\"; \"$@\" >>log 2>&1 & cat >/dev/null; kill $!; wait; rm -rf \"$folder\"")
        .args([Path::new("sh"), folder, program])
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !answers(port, path).unwrap_or(false) {
        assert!(
            Instant::now() < deadline,
            "{} is not ready: {}",
            program.display(),
            std::fs::read_to_string(folder.join("log")).unwrap_or_default()
        );
        std::thread::sleep(Duration::from_millis(100));
    }
    Running(guard)
}

fn answers(port: u16, path: &str) -> std::io::Result<bool> {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer.windows(5).take(20).any(|part| part == b" 200 "))
}
