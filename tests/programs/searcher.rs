//! A client of gRPC: one of `examples/`, which makes a call for each line that it is given.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::ensure;
use hedgerow_tests::{eventually, program, scratch};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;
use tokio::time::timeout;

use crate::attempts::{Attempt, Attempts, new_call};
use crate::mounted::Mounted;
use crate::shard::shard;

const SOON: Duration = Duration::from_secs(60);

/// A client that runs, and what the shards saw that it asks.
pub(crate) struct Searcher {
    attempts: Attempts,
    log: PathBuf,
    talk: Mutex<Talk>,
}

/// It ends when its standard input does, so with the test whatever happens to that.
struct Talk {
    _child: Child,
    queries: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

/// A call, when it is over.
#[derive(Debug)]
pub(crate) struct Call {
    /// What the client printed: a status of gRPC, and the answer or the failure.
    pub(crate) said: String,
    /// When it was sent.
    pub(crate) sent: Instant,
    /// What the shards saw of it.
    pub(crate) attempts: Vec<Attempt>,
}

impl Searcher {
    /// Starts the program `name` on the file in `mounted`, with one shard, and waits until it is connected: a call that waits for
    /// that is hedged as any other.
    pub(crate) async fn start(name: &'static str, mounted: &Mounted) -> Self {
        let attempts = Attempts::default();
        let target = shard(0, &attempts).await.to_string();
        Self::start_on(name, &target, attempts, mounted).await
    }

    /// The same with two shards, for a client that takes two addresses.
    pub(crate) async fn start_with_two(name: &'static str, mounted: &Mounted) -> Self {
        let attempts = Attempts::default();
        let target = format!("ipv4:{},{}", shard(0, &attempts).await, shard(1, &attempts).await);
        Self::start_on(name, &target, attempts, mounted).await
    }

    async fn start_on(name: &'static str, target: &str, attempts: Attempts, mounted: &Mounted) -> Self {
        let log = scratch(name).unwrap().join("log");
        let mut child = Command::new(program(name).unwrap())
            .arg(target)
            .arg(mounted.file())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&log).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let queries = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap()).lines();
        let talk = Mutex::new(Talk {
            _child: child,
            queries,
            answers,
        });
        let searcher = Self { attempts, log, talk };
        eventually("the client is connected", SOON, async || {
            let call = searcher.call("0").await;
            ensure!(call.said.starts_with("OK"), "{call:?}");
            Ok(())
        })
        .await
        .unwrap();
        searcher
    }

    /// Makes a call; its first attempt takes so many milliseconds at the shard, the second so many, and so on.
    pub(crate) async fn call(&self, takes: &str) -> Call {
        let name = new_call();
        let query = format!("{name} {takes}\n");
        let mut talk = self.talk.lock().await;
        let sent = Instant::now();
        talk.queries.write_all(query.as_bytes()).await.unwrap();
        let line = timeout(SOON, talk.answers.next_line()).await.unwrap().unwrap();
        let said = line.unwrap_or_else(|| panic!("the client has ended:\n{}", self.log()));
        // The shard learns a moment later that it need not answer.
        let attempts = eventually("each attempt has ended", SOON, async || {
            let attempts = self.attempts.of(&name);
            let ended = |attempt: &Attempt| attempt.answered.or(attempt.cancelled).is_some();
            ensure!(attempts.iter().all(ended), "{attempts:?}");
            Ok(attempts)
        })
        .await
        .unwrap();
        Call { said, sent, attempts }
    }

    /// Waits until the client has logged `text` `times` times.
    pub(crate) async fn logs(&self, text: &str, times: usize) {
        eventually(&format!("{text:?} is logged {times} times"), SOON, async || {
            let seen = self.log().matches(text).count();
            ensure!(seen == times, "seen {seen} times:\n{}", self.log());
            Ok(())
        })
        .await
        .unwrap();
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }
}
