//! What to do about a reason: the words of `docs/reasons.md`, so that they stand in one place.

/// The page that has them all.
const PAGE: &str = include_str!("../../../docs/reasons.md");

/// What to do about a reason that stands under one of these headings; `None` for one that the page does not know.
pub(crate) fn remedy(headings: &[&str], reason: &str) -> Option<String> {
    let mut heading = "";
    for line in PAGE.lines() {
        if let Some(next) = line.strip_prefix("## ") {
            heading = next;
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        if let [name, _, remedy] = cells[..]
            && headings.contains(&heading)
            && name.trim_matches('`') == reason
        {
            return Some(plain(remedy));
        }
    }
    None
}

/// Why hedging is as it is.
pub(crate) const DECIDED: &str = "Why hedging is as it is";
/// Why a reading is not a number.
pub(crate) const UNKNOWN: &str = "Why a reading is not a number";
/// What makes hedging pay less.
pub(crate) const DIAGNOSED: &str = "What makes hedging pay less than it could";
/// What keeps the delay from the recommended one.
pub(crate) const LIMITS: &str = "What keeps the delay from the one that the percentile asks for";
/// The rest.
pub(crate) const OTHERS: &str = "Other reasons of conditions";

/// Markdown as plain text: links as their words, code as it is.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once('[') {
        text.push_str(before);
        match after
            .split_once("](")
            .and_then(|(words, link)| Some((words, link.split_once(')')?.1)))
        {
            Some((words, after)) => {
                text.push_str(words);
                rest = after;
            }
            None => {
                text.push('[');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use hedgerow_api::ConditionReason;

    use super::*;

    #[test]
    fn every_reason_of_the_page_has_its_remedy() {
        for reason in ["Saturated", "Tuned", "Invalid"] {
            assert!(remedy(&[DECIDED], reason).is_some(), "{reason}");
        }
        assert!(remedy(&[UNKNOWN], "MetricNotFound").is_some());
        assert!(remedy(&[DIAGNOSED], "SlowTogether").is_some());
        assert!(remedy(&[LIMITS], "HoldBand").is_some());
        for reason in ConditionReason::ALL {
            assert!(remedy(&[OTHERS], reason.as_str()).is_some(), "{reason}");
        }
    }

    #[test]
    fn a_link_is_its_words() {
        let told = remedy(&[UNKNOWN], "TooFewSamples");
        assert_eq!(told.as_deref(), Some("a wider window or a lower percentile"));
    }

    #[test]
    fn the_same_name_under_another_heading_is_another_reason() {
        assert_ne!(remedy(&[DECIDED], "NoBenefit"), remedy(&[DIAGNOSED], "NoBenefit"));
        assert_eq!(remedy(&[DECIDED], "HoldBand"), None);
    }
}
