//! What a page shows after a command, against what was printed.

/// Says how what was printed differs from what is shown, if it does.
///
/// A line `...` stands for any lines. Spaces count as one, and a number with its unit stands for any other with a unit of its kind,
/// since latencies, ages and shares are those of the day.
pub(crate) fn difference(shown: &[String], printed: &str) -> Option<String> {
    let mut lines = printed.lines().map(shape).peekable();
    let mut skipping = false;
    for expected in shown {
        if expected.trim() == "..." {
            skipping = true;
            continue;
        }
        let wanted = shape(expected);
        let found = if skipping {
            lines.any(|line| line == wanted)
        } else {
            lines.next().is_some_and(|line| line == wanted)
        };
        if !found {
            return Some(format!("this is shown, and not printed: {expected}"));
        }
        skipping = false;
    }
    let more = lines.next().filter(|_| !skipping)?;
    Some(format!("this is printed, and not shown: {more}"))
}

/// A line without what differs from day to day.
fn shape(line: &str) -> String {
    let words = line.split_whitespace().map(kind);
    words.collect::<Vec<_>>().join(" ")
}

fn kind(word: &str) -> String {
    let (core, tail) = word
        .find([',', ';', ':'])
        .map_or((word, ""), |at| word.split_at(at));
    let unit = core.trim_start_matches(|one: char| one.is_ascii_digit() || one == '.');
    let number = unit.len() < core.len();
    match unit {
        // An age may be told by two units: 2m5s.
        _ if number
            && core
                .chars()
                .all(|one| one.is_ascii_digit() || ".smhd".contains(one))
            && !unit.is_empty() =>
        {
            format!("<time>{tail}")
        }
        "%" if number => format!("<share>{tail}"),
        _ => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(lines: &[&str]) -> Vec<String> {
        lines.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn numbers_of_the_day_may_differ_and_nothing_else() {
        let page = shown(&["NAME  DELAY  AGE", "kb    512ms  12m"]);
        assert_eq!(difference(&page, "NAME   DELAY   AGE\nkb   1.3s   2m5s\n"), None);
        for printed in [
            "NAME DELAY AGE\nkb - 2m\n",
            "NAME DELAY AGE\n",
            "NAME DELAY\nkb 512ms\n",
            "NAME DELAY AGE\nkb 512ms 12m\nmore\n",
            "NAME DELAY AGE\nkb 10% 12m\n",
        ] {
            assert!(difference(&page, printed).is_some(), "{printed}");
        }
    }

    #[test]
    fn dots_stand_for_any_lines() {
        let page = shown(&["a", "...", "d"]);
        assert_eq!(difference(&page, "a\nb\nc\nd\n"), None);
        assert_eq!(difference(&shown(&["a", "..."]), "a\nb\n"), None);
        assert!(difference(&page, "a\nb\n").is_some());
        assert!(difference(&page, "a\nd\ne\n").is_some());
    }
}
