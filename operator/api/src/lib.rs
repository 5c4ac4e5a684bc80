//! The `HedgePolicy` API: what a person may ask for, what they are told, and what is refused. No I/O.
//!
//! - [`HedgePolicySpec`] and [`HedgePolicyStatus`] are the object as it is stored; their comments are what
//!   `kubectl explain` prints, and [`crd`] is generated from them.
//! - [`validate`] checks at run time what the schema checks on admission, since an object may be older than the schema or come
//!   from a file.
//! - [`decode_spec`] reads a spec from a file, as strictly as `kubectl apply` does.
//! - [`preset`] holds the metrics that need only be named.
//! - Methods ending in `_in_use` say the value that holds where a policy leaves it unsaid.
//! - [`names`] holds labels, annotations and other names that are an interface.

mod condition;
mod crd;
mod decode;
mod in_use;
mod limits;
pub mod names;
pub mod preset;
mod rules;
#[allow(
    unreachable_pub,
    reason = "derive(KubeSchema) puts a copy of each type into a function"
)]
mod spec;
mod status;
pub mod text;
mod validate;

pub use condition::{ConditionReason, ConditionType, DeliveryKind, OutputState, ReadingState, TargetState};
pub use crd::{crd, crd_yaml};
pub use decode::decode_spec;
pub use spec::{
    Base, Budget, Cassandra, Counter, DataStax, Delay, DotnetHedging, EnvoyRoute, Format, GrpcServiceConfig,
    Hdfs, HedgePolicy, HedgePolicySpec, HedgingCounters, Kitex, Labels, Latency, Loki, ManualOff, Measures,
    Mode, NoBenefit, NudgePods, Operator, Outcomes, Output, PerClient, Plateau, PodLabels, Properties,
    PublishedTarget, Requirement, Saturation, Signal, Target, Tempo, Unit, Witness, ZeroWhenAbsent,
};
pub use status::{
    BudgetStatus, Change, DelayStatus, DiagnosisStatus, EffectStatus, HedgePolicyStatus, InUseStatus,
    OutputStatus, ReadingsStatus, SignalStatus, Summary, TargetStatus,
};
pub use validate::{FieldError, validate};
