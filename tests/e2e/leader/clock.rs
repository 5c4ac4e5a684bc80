//! The clocks of two machines differ, and one is set while it matters.

use std::fs;
use std::process::Command;

use anyhow::ensure;
use hedgerow_tests::{Part, eventually, part, scratch, steadily};

use super::{A_WHILE, Replicas, TAKEOVER};
use crate::scene::SOON;

/// A machine that is up for longer than this one: `CLOCK_BOOTTIME` and `CLOCK_MONOTONIC` are ahead by eleven days.
const LONG_UP: [&str; 6] = [
    "unshare",
    "--time",
    "--boottime",
    "1000000",
    "--monotonic",
    "1000000",
];

/// Whether a process may have clocks of its own; as root it may.
fn may_have_clocks() -> bool {
    let [program, arguments @ ..] = LONG_UP;
    let tried = Command::new(program).args(arguments).arg("true").output();
    let may = tried.is_ok_and(|output| output.status.success());
    if !may {
        eprintln!("NOT TESTED: a replica whose CLOCK_BOOTTIME differs; unshare --time is refused here");
    }
    may
}

#[tokio::test]
async fn a_clock_that_is_wrong_or_is_set_neither_takes_the_lease_nor_loses_it() {
    let clock = scratch("clock").unwrap().join("clock");
    // A replica that believed the times in the lease would take it at once. Documents are valid for longer: by a clock that is
    // ahead of their end clients hedge no more, and come back through the ramp.
    fs::write(&clock, "+30m").unwrap();
    let library = part(Part::LibFakeTime).unwrap();
    let mut replicas = Replicas::with_standby("clock", |options| {
        let options = options
            .env("LD_PRELOAD", &library)
            .env("FAKETIME_TIMESTAMP_FILE", &clock)
            .env("FAKETIME_NO_CACHE", "1")
            // Timers go on as they do when a clock is set.
            .env("DONT_FAKE_MONOTONIC", "1");
        if may_have_clocks() {
            options.wrapped_in(LONG_UP)
        } else {
            options
        }
    })
    .await;
    let mark = replicas.scene.audit.mark().unwrap();
    steadily("the leader leads", A_WHILE, async || {
        let written = replicas.writes_of(&replicas.standby, mark)?;
        ensure!(written.is_empty(), "the other one wrote {written:?}");
        Ok(())
    })
    .await
    .unwrap();

    let (before, killed) = (replicas.content().await, replicas.begins());
    replicas.scene.operator.kill().unwrap();
    let taken = replicas.takeover(mark).await;
    let after = replicas.ran(&killed, taken);
    println!("taken over {after:#} after the kill");
    assert!(after <= TAKEOVER, "{after:#}");
    assert_eq!(replicas.content().await, before);

    // It acts only when it has seen all that was written before.
    eventually("the new leader acts", SOON, async || {
        ensure!(replicas.standby.leads().await?, "not yet");
        Ok(())
    })
    .await
    .unwrap();

    // Its clock is set back by an hour and a half, which is before the documents were issued.
    fs::write(&clock, "-1h").unwrap();
    steadily("it leads, and changes nothing", A_WHILE * 2, async || {
        ensure!(replicas.standby.leads().await?, "{}", replicas.standby.log_tail());
        let now = replicas.content().await;
        ensure!(now == before, "{now}");
        Ok(())
    })
    .await
    .unwrap();
    replicas.is_switched_off_by_the_new_leader(mark).await;
}
