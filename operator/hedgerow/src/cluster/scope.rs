//! Which namespaces the operator works in.

/// Which namespaces the operator works in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole cluster; needs a ClusterRole.
    Cluster,
    /// These namespaces alone; a Role in each is enough.
    Namespaces(Vec<String>),
}

impl Scope {
    /// The watches that cover the scope: one of the whole cluster (`None`), or one for each namespace, `extra` included.
    pub(super) fn watches(&self, extra: Option<&str>) -> Vec<Option<String>> {
        match self {
            Self::Cluster => vec![None],
            Self::Namespaces(namespaces) => {
                let mut all: Vec<_> = namespaces.iter().map(String::as_str).chain(extra).collect();
                all.sort_unstable();
                all.dedup();
                all.into_iter()
                    .map(|namespace| Some(namespace.to_owned()))
                    .collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_covered_by_one_watch() {
        assert_eq!(Scope::Cluster.watches(Some("hedgerow-system")), [None]);
    }

    #[test]
    fn each_namespace_is_watched_once() {
        let scope = Scope::Namespaces(vec!["b".into(), "a".into(), "b".into()]);
        let watches = scope.watches(Some("a"));
        assert_eq!(watches, [Some("a".to_owned()), Some("b".to_owned())]);
    }
}
