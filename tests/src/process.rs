//! Processes that end with ours.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;
use std::{fs, io, thread};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::{Hopeless, eventually};

/// A child process that writes its output to a log file.
///
/// It is killed when this value is dropped, and by the kernel when our process ends in any other way, `SIGKILL` included:
/// `setpriv --pdeathsig` arms that and then becomes the program itself, so that the pid is the program's own.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts `command`, which inherits nothing of our environment but `PATH`; `log` is appended to.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn spawn(name: &str, command: &Command, log: &Path) -> Result<Self> {
        let open = || OpenOptions::new().create(true).append(true).open(log);
        let output = open().with_context(|| format!("cannot write {}", log.display()))?;
        let child = spawn_from_lasting_thread(wrapped(command, output)?)
            .with_context(|| format!("cannot start {name} through setpriv (Debian: util-linux)"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
        })
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its log file.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When the kernel will not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Fails when it has ended, with the end of its log.
    ///
    /// # Errors
    /// When it has ended: [`Hopeless`].
    pub fn must_run(&mut self) -> Result<()> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => {
                let told = format!("{} ended with {status}:\n{}", self.name, self.log_tail());
                Err(Hopeless(told).into())
            }
        }
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.kernel_pid()?, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Asks it to end, and waits until it has.
    ///
    /// # Errors
    /// When it is still there after `grace`.
    pub async fn terminate(mut self, grace: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let name = self.name.clone();
        eventually(&format!("{name} ends after SIGTERM"), grace, async || {
            self.ended()?
                .ok_or_else(|| anyhow!("{} still runs; its log ends:\n{}", self.name, self.log_tail()))
        })
        .await
    }

    /// Ends it at once, and waits until it is gone.
    pub fn kill(mut self) {
        self.kill_and_reap();
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn kernel_pid(&self) -> Result<Pid> {
        pid_of(self.child.id()).context("a child has a pid above 0")
    }

    fn kill_and_reap(&mut self) {
        // Both fail only when it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill_and_reap();
    }
}

/// Those of `pids` that are there, ended but unreaped ones included.
pub fn processes_alive(pids: &[u32]) -> Vec<u32> {
    let alive = |pid: &u32| pid_of(*pid).is_some_and(|pid| test_kill_process(pid).is_ok());
    pids.iter().copied().filter(alive).collect()
}

fn pid_of(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}

fn wrapped(command: &Command, output: File) -> Result<Command> {
    let mut wrapped = Command::new("setpriv");
    wrapped
        .args(["--pdeathsig", "KILL", "--"])
        .arg(command.get_program())
        .args(command.get_args());
    wrapped
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default());
    wrapped.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
    if let Some(folder) = command.get_current_dir() {
        wrapped.current_dir(folder);
    }
    wrapped
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    Ok(wrapped)
}

type Order = (Command, mpsc::Sender<io::Result<Child>>);

/// The kernel's signal is bound to the *thread* that started the child, and a test's thread ends with the test. So one
/// thread, which lasts as long as the process, starts all of them.
fn spawn_from_lasting_thread(command: Command) -> Result<Child> {
    static SPAWNER: OnceLock<mpsc::Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, reply) in orders {
                // Nobody waits for the answer any more: the child is dropped and dies with us.
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let (reply, answer) = mpsc::channel();
    spawner
        .send((command, reply))
        .map_err(|_| anyhow!("the spawning thread has ended"))?;
    Ok(answer.recv().context("the spawning thread has ended")??)
}
