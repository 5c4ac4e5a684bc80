//! The ways of hedging that are compared.

use serde::Serialize;

use crate::scenario::Scenario;

/// A way of hedging.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Way {
    /// One attempt.
    Unhedged,
    /// A delay that is written in the program.
    Static,
    /// `tower::hedge`.
    Tower,
    /// Hedgerow's client and operator.
    Hedgerow,
}

impl Way {
    /// In the order of every table.
    pub(crate) const ALL: [Self; 4] = [Self::Unhedged, Self::Static, Self::Tower, Self::Hedgerow];

    /// For people.
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Unhedged => "unhedged",
            Self::Static => "static delay",
            Self::Tower => "tower::hedge",
            Self::Hedgerow => "Hedgerow",
        }
    }

    /// For a front end.
    pub(crate) fn flag(self, scenario: Scenario) -> String {
        match self {
            Self::Unhedged => "none".to_owned(),
            Self::Static => format!("static:{}", scenario.usual_p95().as_millis()),
            Self::Tower => "tower".to_owned(),
            Self::Hedgerow => "hedgerow".to_owned(),
        }
    }
}
