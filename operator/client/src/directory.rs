//! Follows a document in a mounted directory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use hedgerow_config::NativeDocument;
use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{MissedTickBehavior, interval};

use crate::document::{Followed, Found, now};

/// How often the directory is read even when nothing tells of a change: for file systems that tell nothing, and for a
/// directory that came into being later.
const POLL: Duration = Duration::from_secs(10);

/// Reads the document once.
pub(crate) async fn read(path: PathBuf) -> Found {
    let reading = tokio::task::spawn_blocking(move || read_blocking(&path));
    match reading.await {
        Ok(Ok(bytes)) => Found::Bytes(bytes),
        Ok(Err(error)) if error.kind() == ErrorKind::NotFound => Found::Missing,
        Ok(Err(error)) => Found::Unreadable(error.to_string()),
        Err(error) => Found::Unreadable(error.to_string()),
    }
}

fn read_blocking(path: &Path) -> io::Result<Vec<u8>> {
    // One byte more than a document may have: the reader refuses it.
    let most = u64::try_from(NativeDocument::LARGEST + 1).unwrap_or(u64::MAX);
    let mut bytes = Vec::new();
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Takes in each change of `directory`/`key` after `last`, until nobody needs it any more.
///
/// The whole directory is watched: kubelet writes a new version beside the old one and swaps the symlink `..data`, so
/// the file itself never changes.
pub(crate) async fn follow(followed: Weak<Followed>, directory: PathBuf, key: String, mut last: Found) {
    let changed = Arc::new(Notify::new());
    let mut watcher = watcher(&changed);
    let mut poll = interval(POLL);
    poll.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = changed.notified() => {}
            _ = poll.tick() => {
                // Again each time: the directory may be new, or another one of the same name.
                if let Some(watcher) = &mut watcher
                    && let Err(error) = watcher.watch(&directory, RecursiveMode::NonRecursive)
                {
                    tracing::debug!(directory = %directory.display(), %error, "cannot watch, polling");
                }
            }
        }
        let found = read(directory.join(&key)).await;
        let Some(followed) = followed.upgrade() else {
            return;
        };
        if found != last {
            // Refused ones are logged and counted there; the next change is awaited in any case.
            let _ = followed.take_in(&found, now());
            last = found;
        }
        followed.expire(now());
    }
}

/// A watcher that tells `changed`; `None` where the system has none to give.
fn watcher(changed: &Arc<Notify>) -> Option<RecommendedWatcher> {
    let changed = Arc::clone(changed);
    let tell = move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| is_change(event.kind)) {
            changed.notify_one();
        }
    };
    notify::recommended_watcher(tell)
        .inspect_err(|error| tracing::warn!(%error, "cannot watch files, polling every {POLL:?}"))
        .ok()
}

/// Reading the file is an event too, and must not cause the next reading.
fn is_change(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(access) if access != AccessKind::Close(AccessMode::Write))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    use notify::event::{CreateKind, ModifyKind, RenameMode};

    use crate::Metrics;

    #[tokio::test]
    async fn a_swap_of_the_data_link_is_noticed() {
        let mount = tempfile::tempdir().unwrap();
        symlink("..1", mount.path().join("..data")).unwrap();
        symlink("..2", mount.path().join("..data_tmp")).unwrap();
        let changed = Arc::new(Notify::new());
        let mut watcher = watcher(&changed).unwrap();
        watcher.watch(mount.path(), RecursiveMode::NonRecursive).unwrap();

        fs::rename(mount.path().join("..data_tmp"), mount.path().join("..data")).unwrap();
        // Nothing but the watcher tells: without it this waits until the deadline.
        tokio::time::timeout(Duration::from_secs(60), changed.notified())
            .await
            .unwrap();
    }

    #[test]
    fn reading_is_no_change_and_every_way_of_writing_is() {
        assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!is_change(EventKind::Access(AccessKind::Read)));
        assert!(!is_change(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(is_change(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(is_change(EventKind::Create(CreateKind::Folder)));
        assert!(is_change(EventKind::Modify(ModifyKind::Name(RenameMode::To))));
    }

    #[tokio::test]
    async fn what_is_not_there_is_missing_and_what_is_no_file_is_unreadable() {
        let mount = tempfile::tempdir().unwrap();
        assert_eq!(read(mount.path().join("key.json")).await, Found::Missing);
        assert!(matches!(
            read(mount.path().to_owned()).await,
            Found::Unreadable(_)
        ));
    }

    #[tokio::test]
    async fn a_file_that_is_too_long_for_a_document_is_not_held_and_is_none() {
        let mount = tempfile::tempdir().unwrap();
        let path = mount.path().join("key.json");
        let document = include_str!("../tests/document.json").to_owned();
        fs::write(&path, document + &" ".repeat(1 << 20)).unwrap();
        let Found::Bytes(bytes) = read(path).await else {
            panic!("it is there");
        };
        assert_eq!(bytes.len(), NativeDocument::LARGEST + 1);
        assert!(NativeDocument::parse(&bytes).is_err());
    }

    /// In virtual time, so the next poll comes at once.
    #[tokio::test(start_paused = true)]
    async fn following_ends_when_nobody_needs_it_any_more() {
        let followed = Arc::new(Followed::new("t".to_owned(), Metrics::default().for_target("t")));
        let following = follow(
            Arc::downgrade(&followed),
            "/does/not/exist".into(),
            "key.json".to_owned(),
            Found::Missing,
        );
        let task = tokio::spawn(following);
        tokio::time::sleep(3 * POLL).await;
        assert!(!task.is_finished());
        drop(followed);
        tokio::time::timeout(2 * POLL, task).await.unwrap().unwrap();
    }
}
