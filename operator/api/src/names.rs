//! The names by which Hedgerow's objects are known in a cluster. They are an interface: people select on them.

/// The API group of `HedgePolicy`, and the prefix of every label and annotation.
pub const GROUP: &str = "hedgerow.dev";

/// The label that tells what a ConfigMap is to Hedgerow; see [`ROLE_OUTPUT`] and [`ROLE_BASE`].
pub const ROLE_LABEL: &str = "hedgerow.dev/role";
/// The value of [`ROLE_LABEL`] on ConfigMaps that the operator writes.
pub const ROLE_OUTPUT: &str = "output";
/// The value of [`ROLE_LABEL`] on ConfigMaps whose owner agrees that documents are written over theirs.
pub const ROLE_BASE: &str = "base";
/// Beside a document of another system's format, under its key with this at the end: the same document with hedging off.
/// It is all that is needed to switch it off, and where the document has a base it is the base that was accepted last.
pub const OFF_FORM_SUFFIX: &str = ".base";
/// The label by which tools know who manages an object.
pub const MANAGED_BY_LABEL: &str = "app.kubernetes.io/managed-by";
/// The value of [`MANAGED_BY_LABEL`] on objects that the operator writes.
pub const MANAGED_BY: &str = "hedgerow";

/// On an output: what must outlive a restart of the operator, as compact JSON.
pub const MEMORY_ANNOTATION: &str = "hedgerow.dev/memory";
/// On an output: the policy that it belongs to, as `namespace/name`.
pub const POLICY_ANNOTATION: &str = "hedgerow.dev/policy";
/// On an output: the id of the installation that writes it. Two installations never share a ConfigMap.
pub const INSTANCE_ANNOTATION: &str = "hedgerow.dev/instance";
/// On an output: the UID of the policy that it belongs to. Another policy of that name is another policy.
pub const POLICY_UID_ANNOTATION: &str = "hedgerow.dev/policy-uid";
/// On an output: Hedgerow has switched it off, and does not write it any longer.
pub const RELEASED_ANNOTATION: &str = "hedgerow.dev/released";
/// On a pod: the ConfigMap, and its version, for whose sake the pod was annotated last, so that kubelet looks at once.
pub const NUDGED_ANNOTATION: &str = "hedgerow.dev/nudged";
/// On a policy: stops it by its presence, whatever its value; a value is shown as the reason.
pub const OFF_ANNOTATION: &str = "hedgerow.dev/off";

/// The ConfigMap that stops hedging by its presence: the policies of its namespace, or all from the operator's namespace.
pub const OFF_CONFIG_MAP: &str = "hedgerow-off";
/// In [`OFF_CONFIG_MAP`]: why hedging is stopped, for people.
pub const OFF_REASON_KEY: &str = "reason";
/// In [`OFF_CONFIG_MAP`]: the policies that it stops, one a line; all without this key.
pub const OFF_POLICIES_KEY: &str = "policies";
/// In [`OFF_CONFIG_MAP`] without [`OFF_POLICIES_KEY`]: the policies that stay stopped when the stop of all is lifted, one a
/// line. The operator does not read it; who lifts the stop does.
pub const OFF_NAMED_KEY: &str = "named";

/// The field manager of the operator's writes.
pub const FIELD_MANAGER: &str = "hedgerow";
/// The field manager of a person's commands. Never a name that starts with `kubectl`: Flux removes what those set.
pub const CLI_FIELD_MANAGER: &str = "hedgerow-cli";
