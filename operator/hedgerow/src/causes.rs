//! Errors as people read them.

use std::error::Error;

/// An error with what it comes from, each once: kube's own words for a refused connection are "ServiceError".
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |error| (*error).source()) {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::with_causes;

    #[test]
    fn each_cause_is_said_once() {
        let error = anyhow!("connection refused")
            .context("cannot connect: connection refused")
            .context("ServiceError");
        assert_eq!(
            with_causes(&*error),
            "ServiceError: cannot connect: connection refused"
        );
    }
}
