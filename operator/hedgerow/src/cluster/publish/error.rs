//! Why a ConfigMap could not be written, and what to do about it.

use kube::core::Status;

use super::super::name::{NamespacedName, PolicyKey};
use super::super::write::WriteError;

/// The longest message of the API server that is passed on, in characters.
const LONGEST_MESSAGE: usize = 300;

/// Why a ConfigMap could not be written. Its text is for people: what is wrong and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// Another policy claims it, and is older.
    #[error(
        "ConfigMap {name} belongs to the older policy {winner}: publish to another ConfigMap, or delete {winner}"
    )]
    Conflicted {
        /// The ConfigMap.
        name: NamespacedName,
        /// The policy that writes it.
        winner: PolicyKey,
    },
    /// It is somebody else's.
    #[error(
        "ConfigMap {name} {holder}, and is left as it is: publish to another ConfigMap, or delete this one"
    )]
    NameConflict {
        /// The ConfigMap.
        name: NamespacedName,
        /// Whose it is, as a predicate.
        holder: String,
    },
    /// The policy is gone, or another of its name is there.
    #[error("the policy is gone")]
    PolicyGone,
    /// It has `immutable: true`.
    #[error("ConfigMap {name} is immutable: delete it, and it is created anew")]
    Immutable {
        /// The ConfigMap.
        name: NamespacedName,
    },
    /// The operator lacks a right.
    #[error(
        "the operator may not write ConfigMap {name}: grant it the Role of its chart in this namespace ({message})"
    )]
    Forbidden {
        /// The ConfigMap.
        name: NamespacedName,
        /// What the API server says.
        message: String,
    },
    /// The namespace's quota is used up.
    #[error("the quota of namespace {} has no room for ConfigMap {}: raise it, or free some ({message})", name.namespace, name.name)]
    QuotaExceeded {
        /// The ConfigMap.
        name: NamespacedName,
        /// What the API server says.
        message: String,
    },
    /// An admission webhook or policy refuses it.
    #[error(
        "an admission rule of the cluster refuses ConfigMap {name}: exempt the label hedgerow.dev/role=output from it ({message})"
    )]
    Denied {
        /// The ConfigMap.
        name: NamespacedName,
        /// What the API server says.
        message: String,
    },
    /// The namespace is being deleted, or is gone.
    #[error("namespace {} is being deleted", name.namespace)]
    NamespaceTerminating {
        /// The ConfigMap.
        name: NamespacedName,
    },
    /// The API server says that it is not a valid ConfigMap: too large, or a key that is none.
    #[error("the API server rejects ConfigMap {name}: {message}")]
    Rejected {
        /// The ConfigMap.
        name: NamespacedName,
        /// What the API server says.
        message: String,
    },
    /// There is no room for its documents, or for the same with hedging off. What stands there is off.
    #[error(
        "ConfigMap {name} would have {bytes} bytes with its documents off or on, each beside its off form, and can hold {most}: \
         shorten the bases, or publish to several ConfigMaps; hedging is off there"
    )]
    TooLarge {
        /// The ConfigMap.
        name: NamespacedName,
        /// What it would have, in bytes.
        bytes: usize,
        /// What it can hold, in bytes.
        most: usize,
    },
    /// Somebody else writes to it all the time.
    #[error(
        "ConfigMap {name} keeps changing under the operator's hands: find who else writes to it (kubectl get -o yaml --show-managed-fields)"
    )]
    Contended {
        /// The ConfigMap.
        name: NamespacedName,
    },
    /// This process does not lead (any longer).
    #[error("not leading")]
    NotLeading,
    /// No answer in time, or none that says anything: it may have happened, and is tried again.
    #[error("ConfigMap {name} not written, trying again: {message}")]
    Unavailable {
        /// The ConfigMap.
        name: NamespacedName,
        /// What happened.
        message: String,
    },
}

impl PublishError {
    /// Every [`reason`](Self::reason).
    pub const REASONS: [&'static str; 12] = [
        "Conflicted",
        "NameConflict",
        "PolicyGone",
        "Immutable",
        "Forbidden",
        "QuotaExceeded",
        "Denied",
        "NamespaceTerminating",
        "Rejected",
        "Contended",
        "NotLeading",
        "Unavailable",
    ];

    /// Its bounded name, for metrics and events.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Conflicted { .. } => "Conflicted",
            Self::NameConflict { .. } => "NameConflict",
            Self::PolicyGone => "PolicyGone",
            Self::Immutable { .. } => "Immutable",
            Self::Forbidden { .. } => "Forbidden",
            Self::QuotaExceeded { .. } => "QuotaExceeded",
            Self::Denied { .. } => "Denied",
            Self::NamespaceTerminating { .. } => "NamespaceTerminating",
            Self::Rejected { .. } | Self::TooLarge { .. } => "Rejected",
            Self::Contended { .. } => "Contended",
            Self::NotLeading => "NotLeading",
            Self::Unavailable { .. } => "Unavailable",
        }
    }

    /// Whether only a person can mend it. The operator tries again all the same, in case somebody did.
    pub const fn needs_a_person(&self) -> bool {
        match self {
            Self::Conflicted { .. }
            | Self::NameConflict { .. }
            | Self::Immutable { .. }
            | Self::Forbidden { .. }
            | Self::QuotaExceeded { .. }
            | Self::Denied { .. }
            | Self::Rejected { .. }
            | Self::TooLarge { .. } => true,
            Self::PolicyGone
            | Self::NamespaceTerminating { .. }
            | Self::Contended { .. }
            | Self::NotLeading
            | Self::Unavailable { .. } => false,
        }
    }

    pub(super) fn from_write(name: &NamespacedName, error: WriteError) -> Self {
        let name = name.clone();
        match error {
            WriteError::NotLeading(_) => Self::NotLeading,
            WriteError::Refused(ref status) if error.is_unauthorized() => Self::Unavailable {
                name,
                message: format!(
                    "{}; {}",
                    shortened(&status.message),
                    error.remedy().unwrap_or_default()
                ),
            },
            WriteError::Refused(status) => Self::from_status(name, &status),
            WriteError::Timeout | WriteError::Unreachable(_) => Self::Unavailable {
                name,
                message: shortened(&error.to_string()),
            },
        }
    }

    fn from_status(name: NamespacedName, status: &Status) -> Self {
        let message = shortened(&status.message);
        let has_cause = |reason: &str| {
            let details = status.details.as_ref();
            details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == reason))
        };
        // An admission plugin or policy answers with whatever code it likes; only its words tell.
        if has_cause("NamespaceTerminating")
            || (status.is_not_found() && status.message.starts_with("namespaces "))
        {
            Self::NamespaceTerminating { name }
        } else if status.message.contains("exceeded quota") {
            Self::QuotaExceeded { name, message }
        } else if status.message.contains("denied the request") || status.message.contains("denied request") {
            Self::Denied { name, message }
        } else if status.is_forbidden() {
            Self::Forbidden { name, message }
        } else if matches!(status.code, 400 | 413 | 422) {
            Self::Rejected { name, message }
        } else {
            Self::Unavailable { name, message }
        }
    }
}

fn shortened(message: &str) -> String {
    let mut short: String = message.chars().take(LONGEST_MESSAGE).collect();
    if short.len() < message.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(code: u16, reason: &str, message: &str) -> &'static str {
        let status = Status::failure(message, reason).with_code(code);
        let name = NamespacedName::new("helpdesk", "kb-hedging");
        PublishError::from_write(&name, WriteError::Refused(status.boxed())).reason()
    }

    /// The messages are those of kube-apiserver 1.36.
    #[test]
    fn refusals_are_told_apart() {
        let rbac = "configmaps is forbidden: User \"system:serviceaccount:hedgerow-system:hedgerow\" cannot create \
                    resource \"configmaps\" in API group \"\" in the namespace \"helpdesk\"";
        assert_eq!(reason(403, "Forbidden", rbac), "Forbidden");
        let quota = "configmaps \"kb-hedging\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: \
                     count/configmaps=1, limited: count/configmaps=1";
        assert_eq!(reason(403, "Forbidden", quota), "QuotaExceeded");
        let webhook = "admission webhook \"x.example.com\" denied the request: no";
        assert_eq!(reason(403, "Forbidden", webhook), "Denied");
        let policy = "configmaps \"kb-hedging\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied \
                      request: no";
        assert_eq!(reason(422, "Invalid", policy), "Denied");
        assert_eq!(
            reason(404, "NotFound", "namespaces \"helpdesk\" not found"),
            "NamespaceTerminating"
        );
        assert_eq!(
            reason(422, "Invalid", "ConfigMap \"kb-hedging\" is invalid: ..."),
            "Rejected"
        );
        assert_eq!(
            reason(413, "RequestEntityTooLarge", "Request entity too large"),
            "Rejected"
        );
        assert_eq!(
            reason(401, "Unauthorized", "Unauthorized"),
            "Unavailable",
            "no Role mends it"
        );
        assert_eq!(reason(503, "ServiceUnavailable", "etcd is gone"), "Unavailable");
        assert_eq!(reason(429, "TooManyRequests", "slow down"), "Unavailable");
    }

    #[test]
    fn a_namespace_that_is_being_deleted_is_told_by_the_cause() {
        let status: Status = serde_json::from_value(json!({
            "status": "Failure", "code": 403, "reason": "Forbidden", "message": "unable to create new content in namespace helpdesk because it is being terminated",
            "details": { "causes": [{ "reason": "NamespaceTerminating", "message": "", "field": "metadata.namespace" }] },
        }))
        .unwrap();
        let name = NamespacedName::new("helpdesk", "kb-hedging");
        let error = PublishError::from_write(&name, WriteError::Refused(status.boxed()));
        assert_eq!(error, PublishError::NamespaceTerminating { name });
    }

    #[test]
    fn a_long_message_is_cut() {
        let short = shortened(&"x".repeat(1000));
        assert_eq!(short.chars().count(), LONGEST_MESSAGE + 1);
    }
}
