//! A folder as the kubelet mounts a ConfigMap.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use hedgerow_tests::scratch;

/// A mounted ConfigMap with one key.
///
/// As with the kubelet's atomic writer the file itself is a link that never changes: `FILE -> ..data/FILE`. A change is a new
/// folder and a rename of the link `..data` onto it; the old folder is removed.
pub(crate) struct Mounted {
    folder: PathBuf,
    key: &'static str,
    changes: AtomicU32,
}

impl Mounted {
    /// Mounts a ConfigMap whose `key` is `content`.
    pub(crate) fn new(key: &'static str, content: &str) -> Self {
        let mounted = Self::empty(key);
        mounted.write(content);
        mounted
    }

    /// A ConfigMap that is not there yet, mounted with `optional: true`.
    pub(crate) fn empty(key: &'static str) -> Self {
        let folder = scratch("mounted").unwrap();
        Self {
            folder,
            key,
            changes: AtomicU32::new(0),
        }
    }

    /// The folder: what a container mounts.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file in it.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.join(self.key)
    }

    /// Changes the content, as the kubelet does when the ConfigMap has changed.
    pub(crate) fn write(&self, content: &str) {
        let change = self.changes.fetch_add(1, Ordering::Relaxed);
        let data = self.folder.join("..data");
        let before = fs::read_link(&data).ok();
        let now = format!("..{change}");
        fs::create_dir(self.folder.join(&now)).unwrap();
        fs::write(self.folder.join(&now).join(self.key), content).unwrap();
        let swapped = self.folder.join("..data_tmp");
        symlink(&now, &swapped).unwrap();
        fs::rename(&swapped, &data).unwrap();
        match before {
            None => symlink(Path::new("..data").join(self.key), self.file()).unwrap(),
            Some(before) => fs::remove_dir_all(self.folder.join(before)).unwrap(),
        }
    }
}
