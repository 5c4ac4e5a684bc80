//! The bounded names in conditions and status. They are plain strings in the schema, so that an object with a name that this
//! version does not know still decodes.

use std::fmt;

/// Declares an enum whose variants are also its names as people and machines see them.
macro_rules! names {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$variant_meta])* $variant),+ }

        impl $name {
            /// Every name, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as it is written everywhere.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => stringify!($variant)),+ }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

names! {
    /// The conditions of a policy.
    ConditionType {
        /// The spec is valid, its source may be used and its ConfigMaps are its own.
        Accepted,
        /// The spec is accepted and every document of this generation is written, off documents included. Does not depend on
        /// the signals.
        Ready,
        /// Every signal of every target has a fresh reading.
        SignalsAvailable,
        /// Every document of this generation is written.
        Published,
        /// Some target is not hedged now.
        HedgingDisabled,
        /// Some target's delay deserves little confidence.
        LowConfidence,
        /// Hedging does what it is meant to; a diagnosis is a reason for False.
        Effective,
        /// Only a person can mend what keeps the policy from being ready. Present only when so.
        Stalled,
        /// The operator is still at work on this generation. Present only when so.
        Reconciling,
    }
}

names! {
    /// The reasons of conditions that are not reasons of a decision or of an unknown reading.
    ConditionReason {
        /// The spec is accepted.
        Accepted,
        /// The operator has not come to it yet.
        Pending,
        /// An older policy writes to one of its ConfigMaps.
        Conflicted,
        /// Accepted, and nothing turns hedging off under load: some target has no saturation signal.
        NoOffSwitch,
        /// A ConfigMap of that name belongs to somebody else.
        NameConflict,
        /// The source fails for all its targets.
        SourceFailing,
        /// Every document is written.
        Published,
        /// Every document is written, but pods that were to read it at once could not be told to.
        NudgeForbidden,
        /// A document could not be written; the operator tries again.
        WriteFailed,
        /// A base does not exist, or does not have the key.
        BaseMissing,
        /// A base lacks the label by which its owner agrees.
        BaseNotLabelled,
        /// A base cannot be used as it is: it cannot be read, or lacks what is to be changed.
        BaseInvalid,
        /// The API server does not give a base; the operator tries again.
        BaseUnavailable,
        /// A document is written, but off: its system cannot be told what was decided.
        OrdersRefused,
        /// Every signal has a fresh reading.
        Fresh,
        /// Every target is hedged.
        Hedging,
        /// Every delay is backed by enough data.
        EnoughData,
        /// Some target asks for fewer samples than its percentile needs, or its metric leaves room for doubt.
        LittleData,
        /// There is no diagnosis against it.
        AsExpected,
    }
}

names! {
    /// Whether a target is hedged, as `state` in its status. No name is one that YAML 1.1 reads as a boolean.
    TargetState {
        /// Hedged at full budget.
        Hedging,
        /// Hedged at a part of its budget.
        Ramping,
        /// Not hedged.
        NotHedging,
    }
}

names! {
    /// What a signal says, as `state` in its status.
    ReadingState {
        /// A value that can be used.
        Fresh,
        /// Not a number; the reason says why.
        Unknown,
    }
}

names! {
    /// How a change of a document reaches its clients, as `delivery` in the status of an output.
    DeliveryKind {
        /// Clients take on a changed file while they run.
        Live,
        /// Clients take on a changed file while they run, but not one that is mounted: somebody has to copy it.
        ByCopy,
        /// Clients want a restart, or a person who carries the change on.
        Manual,
    }
}

names! {
    /// Whether a document is written, as `state` in the status of an output.
    OutputState {
        /// Written.
        Published,
        /// Not written yet.
        Pending,
        /// Not written: the ConfigMap belongs to somebody else, or to an older policy; or there is no base for it.
        Refused,
        /// Written over the base that was accepted last: the one that is there now cannot be used.
        OldBase,
        /// Written with hedging off, whatever was decided: the document cannot say it.
        Unhedged,
    }
}
