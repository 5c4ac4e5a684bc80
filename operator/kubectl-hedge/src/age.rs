//! How long ago something was, as kubectl says it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;

/// `42s`, `5m30s`, `3h`, `12d`: two places at most, fewer the longer it is. A time to come is `0s`.
pub(crate) fn age(since: &Time, now: Timestamp) -> String {
    let seconds = (now.as_second() - since.0.as_second()).max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: &str, small: i64, lesser: &str| match small {
        0 => format!("{large}{unit}"),
        _ => format!("{large}{unit}{small}{lesser}"),
    };
    match (minutes, hours, days) {
        (0..2, ..) => format!("{seconds}s"),
        (..10, ..) => two(minutes, "m", seconds % 60, "s"),
        (..180, ..) => format!("{minutes}m"),
        (_, ..8, _) => two(hours, "h", minutes % 60, "m"),
        (_, ..48, _) => format!("{hours}h"),
        (_, ..192, _) => two(days, "d", hours % 24, "h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_it_is_the_coarser_it_is_said() {
        let now = Timestamp::from_second(100_000_000).unwrap();
        for (seconds, said) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (330, "5m30s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_600, "3h30m"),
            (100_000, "27h"),
            (180_000, "2d2h"),
            (1_000_000, "11d"),
        ] {
            let since = Time(Timestamp::from_second(100_000_000 - seconds).unwrap());
            assert_eq!(age(&since, now), said, "{seconds}");
        }
    }
}
