//! Reading what a program exposes.

/// The values of all series of a metric in an exposition.
pub fn series<'a>(exposition: &'a str, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    exposition.lines().filter_map(move |line| {
        let rest = line.strip_prefix(name)?;
        let rest = if rest.starts_with('{') {
            rest.split_once("} ")?.1
        } else {
            rest.strip_prefix(' ')?
        };
        rest.split_whitespace().next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_told_apart_by_their_whole_name() {
        let text = "# TYPE a counter\na_total 3\na_total_more 9\na_total{x=\"1\"} 4\na_total{x=\"2\"} 5 1700000000\n";
        assert_eq!(
            series(text, "a_total").collect::<Vec<_>>(),
            [3.0, 4.0, 5.0][..].to_vec()
        );
        assert_eq!(series(text, "b").count(), 0);
    }
}
