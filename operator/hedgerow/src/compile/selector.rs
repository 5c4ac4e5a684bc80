//! Which series: the API's words in those of the reader.

use hedgerow_api as api;
use hedgerow_signals::{Counter, Operator, Requirement, Selector, Witness};

pub(super) fn selector(labels: &api::Labels, requirements: &[api::Requirement]) -> Selector {
    Selector {
        match_labels: labels.to_strings(),
        requirements: requirements.iter().map(requirement).collect(),
    }
}

pub(super) fn counter(counter: &api::Counter) -> Counter {
    Counter {
        metric: counter.rate_of.to_string(),
        selector: selector(&counter.match_labels, &counter.match_expressions),
        zero_when_absent: counter.zero_when_absent.as_ref().map(witness),
    }
}

pub(super) fn witness(zero: &api::ZeroWhenAbsent) -> Witness {
    Witness {
        metric: zero.witness.metric.to_string(),
        match_labels: zero.witness.match_labels.to_strings(),
    }
}

fn requirement(requirement: &api::Requirement) -> Requirement {
    Requirement {
        key: requirement.key.to_string(),
        operator: match requirement.operator {
            api::Operator::In => Operator::In,
            api::Operator::NotIn => Operator::NotIn,
            api::Operator::Exists => Operator::Exists,
        },
        values: requirement.values.iter().map(ToString::to_string).collect(),
    }
}
