//! Decimals as strings.

/// The grammar of a decimal.
pub(super) const PATTERN: &str = r"^[0-9]{1,9}(\.[0-9]{1,6})?$";

/// A text that is no decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a decimal: up to 9 digits, and up to 6 after the point, such as 99.9")]
pub struct NotADecimal;

/// Reads a decimal such as `95`, `99.9` or `0.01`: up to 9 digits, and up to 6 after the point. No sign, no exponent.
///
/// At most 15 digits are exact in an `f64`: two texts compare as their numbers do, and a number prints as it was written.
///
/// # Errors
/// When the text is anything else.
pub fn parse_decimal(text: &str) -> Result<f64, NotADecimal> {
    let well_formed = match text.split_once('.') {
        Some((whole, fraction)) => is_digits(whole, 9) && is_digits(fraction, 6),
        None => is_digits(text, 9),
    };
    if !well_formed {
        return Err(NotADecimal);
    }
    text.parse().map_err(|_| NotADecimal)
}

fn is_digits(text: &str, at_most: usize) -> bool {
    (1..=at_most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}
