//! Documents for other systems. The input is the kind, a line for each target (see [`Case::read`]), an empty line, and the base.

mod case;
mod said;

use hedgerow_config::RenderError;

use self::case::Case;
use self::said::{Said, said};

pub(crate) fn check(input: &[u8]) {
    let Some(case) = std::str::from_utf8(input).ok().and_then(Case::read) else {
        return;
    };
    let form = case.form(false);
    let _ = form.one_place_twice();
    if let Ok(document) = form.render(case.base) {
        assert_eq!(form.render(case.base), Ok(document.clone()), "twice the same");
        let is_base = case.is_over_its_base() && case.base == Some(&document);
        if !is_base {
            says_no_more_than_ordered(&case, &document);
        }
        if case.is_over_its_base() && !is_base {
            // What hedges as a base would make hedging what off is.
            let again = form.render(Some(&document));
            assert!(
                matches!(again, Err(RenderError::Base { .. })),
                "{document} as a base: {again:?}"
            );
        }
    }
    match case.form(true).render(case.base) {
        Ok(document) if case.is_over_its_base() => {
            assert_eq!(Some(document.as_str()), case.base, "off is the base");
        }
        Ok(document) => {
            let said = said(case.kind, &document);
            let delays = |said: &Said| matches!(said, Said::DelayMs(delay) if *delay > 0.0);
            assert!(!said.iter().any(delays), "off, and hedges: {document}");
        }
        Err(RenderError::Base { .. }) => {}
        Err(why @ RenderError::Orders { .. }) => {
            // Names that the system does not have stand in the way of anything.
            assert!(
                case.form(false).render(case.base).is_err(),
                "only off is refused: {why}"
            );
        }
    }
}

/// Nothing that is not in the base lets a client hedge earlier, or more, than was ordered.
fn says_no_more_than_ordered(case: &Case<'_>, document: &str) {
    let mut added = said(case.kind, document);
    if case.is_over_its_base() {
        for before in case.base.map(|base| said(case.kind, base)).unwrap_or_default() {
            if let Some(at) = added.iter().position(|said| *said == before) {
                added.swap_remove(at);
            }
        }
    }
    let hedging = case.parts.iter().filter(|part| part.hedges());
    let least_delay = hedging
        .clone()
        .map(|part| part.delay_ms)
        .fold(f64::INFINITY, f64::min);
    // Some systems are told them for a target that is off, too.
    let attempts = case.parts.iter().map(|part| f64::from(part.max_attempts));
    let most_attempts = attempts.fold(2.0, f64::max);
    let most_percent = hedging.map(|part| part.percent).fold(0.0, f64::max);
    // How Loki and Tempo say off.
    let is_told_off = added == [Said::DelayMs(0.0), Said::Attempts(1.0)];
    for said in added {
        match said {
            // Below zero is how .NET says never.
            Said::DelayMs(delay) => assert!(
                delay < 0.0 || is_told_off || (delay >= 1.0 && delay >= least_delay - 1e-6),
                "a delay of {delay} ms in {document}"
            ),
            Said::Attempts(attempts) => {
                assert!(attempts <= most_attempts, "{attempts} attempts in {document}");
            }
            Said::Percent(percent) => assert!(
                percent <= most_percent * (1.0 + 1e-9),
                "a budget of {percent} % in {document}"
            ),
        }
    }
}
