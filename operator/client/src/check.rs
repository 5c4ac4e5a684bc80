//! Which answer is valid.

use crate::Invalid;

/// Says whether an answer is valid: a function, or [`AnyAnswer`].
pub trait Check<T> {
    /// Whether `answer` is valid.
    ///
    /// # Errors
    /// Why it is not.
    fn check(&self, answer: &T) -> Result<(), Invalid>;
}

/// Finds every answer valid.
#[derive(Clone, Copy, Debug, Default)]
pub struct AnyAnswer;

impl<T> Check<T> for AnyAnswer {
    fn check(&self, _: &T) -> Result<(), Invalid> {
        Ok(())
    }
}

impl<T, F: Fn(&T) -> Result<(), Invalid>> Check<T> for F {
    fn check(&self, answer: &T) -> Result<(), Invalid> {
        self(answer)
    }
}
