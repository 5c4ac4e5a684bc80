//! Who this process is.

use std::path::Path;

use rand::RngExt;

/// Who this process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    /// The operator's namespace.
    pub(super) namespace: String,
    /// The pod's name, or the host's.
    pub(super) pod: String,
    /// What no second process has.
    pub(super) unique: String,
}

/// Where a pod finds the namespace of its service account.
const NAMESPACE_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";
/// Where Linux tells the host's name, which in a pod is the pod's.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

impl Identity {
    /// Who this process is; `namespace` is what the configuration says.
    pub(super) fn find(namespace: Option<&str>) -> Result<Self, String> {
        let namespace = namespace
            .map(str::to_owned)
            .or_else(|| first_line(Path::new(NAMESPACE_FILE)));
        let namespace = namespace.ok_or_else(|| {
            format!("namespace: is not set, and {NAMESPACE_FILE} is not there; say the operator's namespace in the configuration")
        })?;
        let pod = first_line(Path::new(HOST_NAME_FILE)).unwrap_or_else(|| "hedgerow".to_owned());
        let suffix: u32 = rand::rng().random();
        Ok(Self {
            unique: format!("{pod}_{suffix:08x}"),
            namespace,
            pod,
        })
    }
}

fn first_line(path: &Path) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines()
        .next()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(str::to_owned)
}
