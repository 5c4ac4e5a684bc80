//! The name of a namespaced object.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Where an object is: `namespace/name`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// Its namespace.
    pub namespace: String,
    /// Its name in that namespace.
    pub name: String,
}

/// A [`HedgePolicy`](hedgerow_api::HedgePolicy) by its name.
pub type PolicyKey = NamespacedName;

impl NamespacedName {
    /// The object `name` in `namespace`.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    /// The object that `meta` describes. What the API server sends always has both names.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self::new(
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        )
    }

    /// Reads `namespace/name`; `None` unless there are exactly these two parts.
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let whole = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        whole.then(|| Self::new(namespace, name))
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
