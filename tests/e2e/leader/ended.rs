//! The leader ends.

use super::{AT_ONCE, Replicas, TAKEOVER};

#[tokio::test]
async fn a_killed_leader_is_followed_when_its_lease_has_run_out() {
    let mut replicas = Replicas::start("killed").await;
    let (before, mark) = (replicas.content().await, replicas.scene.audit.mark().unwrap());
    let killed = replicas.begins();
    replicas.scene.operator.kill().unwrap();
    let taken = replicas.takeover(mark).await;
    let after = replicas.ran(&killed, taken);
    println!("taken over {after:#} after the kill");
    assert!(after <= TAKEOVER, "{after:#}");
    replicas.carries_on(mark, &before).await;
    replicas.is_switched_off_by_the_new_leader(mark).await;
}

#[tokio::test]
async fn a_leader_that_is_asked_to_stop_is_followed_at_once() {
    let mut replicas = Replicas::start("stopped").await;
    let (before, mark) = (replicas.content().await, replicas.scene.audit.mark().unwrap());
    let asked = replicas.begins();
    let status = replicas.scene.operator.stop().await.unwrap();
    assert!(status.success(), "{status}");
    let taken = replicas.takeover(mark).await;
    let after = replicas.ran(&asked, taken);
    println!("taken over {after:#} after SIGTERM");
    assert!(after < AT_ONCE, "{after:#}");

    let writes = replicas.writes_of(&replicas.scene.operator, mark).unwrap();
    let last = writes.last().unwrap();
    assert_eq!(last.object_ref.resource, "leases", "{writes:#?}");
    assert!(
        last.request_object["spec"]["holderIdentity"].is_null(),
        "{last:#?}"
    );
    replicas.carries_on(mark, &before).await;
}
