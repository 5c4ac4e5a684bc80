//! The delay of one target over time, as SVG. Pure.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use hedgerow_tuner::Timestamp;
use maud::{Markup, html};

use super::trail::Point;
use crate::words;

/// What is shown, up to now.
const SHOWN: Duration = Duration::from_secs(3600);
/// Points further apart than this are no line: the replica did not lead in between.
const GAP: Duration = Duration::from_secs(60);

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 180.0;
/// Room for the numbers at the left and the times below.
const LEFT: f64 = 74.0;
const BELOW: f64 = 28.0;
const ABOVE: f64 = 12.0;

/// The chart of `trail` at `now`; `None` while there is nothing to show. `target` names it to who cannot see it.
pub(super) fn chart(target: &str, trail: &VecDeque<Point>, now: Timestamp) -> Option<Markup> {
    let shown: Vec<Point> = trail
        .iter()
        .copied()
        .filter(|point| now.since(point.at) <= SHOWN && point.at <= now)
        .collect();
    let last = shown.last()?;
    let delays = shown
        .iter()
        .flat_map(|point| [point.delay_ms, point.recommended_ms]);
    let most = delays.flatten().fold(0.0, f64::max);
    let scale = Scale {
        top: round_up(most),
        now,
    };
    let said = match last.delay_ms {
        Some(delay) => format!("now {}", words::millis(delay)),
        None => "now off".to_owned(),
    };
    Some(html! {
        svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) role="img" aria-label=(format!("The delay of {target} within the last hour: {said}")) {
            @for (kind, from, to) in spans(&shown, now) {
                rect class=(kind) x=(number(scale.x(from))) y=(number(ABOVE))
                    width=(number((scale.x(to) - scale.x(from)).max(1.0))) height=(number(HEIGHT - ABOVE - BELOW)) {}
            }
            @for part in [0.0, 0.5, 1.0] {
                @let y = number(scale.y(scale.top * part));
                line class="grid" x1=(number(LEFT)) x2=(number(WIDTH)) y1=(y) y2=(y) {}
                text x=(number(LEFT - 6.0)) y=(y) class="y" { (words::millis(scale.top * part)) }
            }
            @for (minutes, anchor) in [(60, "start"), (45, "middle"), (30, "middle"), (15, "middle"), (0, "end")] {
                @let x = number(scale.x(before(now, minutes)));
                text x=(x) y=(number(HEIGHT - 11.0)) class="x" text-anchor=(anchor) {
                    @if minutes == 0 { "now" } @else { "−" (minutes) " min" }
                }
            }
            path class="asked" d=(path(&shown, &scale, |point| point.recommended_ms)) {}
            path class="used" d=(path(&shown, &scale, |point| point.delay_ms)) {}
        }
    })
}

struct Scale {
    /// In milliseconds, above 0.
    top: f64,
    now: Timestamp,
}

impl Scale {
    fn x(&self, at: Timestamp) -> f64 {
        let ago = self.now.since(at).as_secs_f64() / SHOWN.as_secs_f64();
        LEFT + (WIDTH - LEFT) * (1.0 - ago.clamp(0.0, 1.0))
    }

    fn y(&self, ms: f64) -> f64 {
        ABOVE + (HEIGHT - ABOVE - BELOW) * (1.0 - (ms / self.top).clamp(0.0, 1.0))
    }
}

/// The next of 1, 2, 5, 10, 20 ... that is not smaller; 1 for what is no number above 0.
fn round_up(most: f64) -> f64 {
    if !(most.is_finite() && most > 0.0) {
        return 1.0;
    }
    let decade = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * decade);
    steps.into_iter().find(|&step| step >= most).unwrap_or(most)
}

/// A line in steps, for a delay holds until the next; broken where there is none.
fn path(points: &[Point], scale: &Scale, value: impl Fn(&Point) -> Option<f64>) -> String {
    let mut path = String::new();
    let mut before: Option<(Timestamp, f64)> = None;
    for point in points {
        let Some(ms) = value(point) else {
            extend(&mut path, scale, before.take().map(|_| point.at));
            continue;
        };
        let (x, y) = (number(scale.x(point.at)), number(scale.y(ms)));
        // Writing to a string cannot fail.
        let _ = match before {
            Some((at, _)) if point.at.since(at) > GAP => write!(path, "M{x} {y}"),
            Some((_, last)) if last.total_cmp(&ms).is_eq() => Ok(()),
            Some(_) => write!(path, "H{x}V{y}"),
            None => write!(path, "M{x} {y}"),
        };
        before = Some((point.at, ms));
    }
    extend(&mut path, scale, before.map(|(at, _)| at));
    path
}

/// Draws on to a moment.
fn extend(path: &mut String, scale: &Scale, to: Option<Timestamp>) {
    if let Some(at) = to {
        let _ = write!(path, "H{}", number(scale.x(at)));
    }
}

/// The times in which hedging was off, or came back.
fn spans(points: &[Point], now: Timestamp) -> Vec<(&'static str, Timestamp, Timestamp)> {
    let mut spans: Vec<(&'static str, Timestamp, Timestamp)> = Vec::new();
    for (at, point) in points.iter().enumerate() {
        let kind = match point {
            Point { delay_ms: None, .. } => "off",
            Point { ramping: true, .. } => "ramping",
            Point { .. } => continue,
        };
        let next = points.get(at + 1).map_or(now, |next| next.at);
        let until = next.min(point.at.plus(GAP));
        match spans.last_mut() {
            Some((last, _, to)) if *last == kind && *to == point.at => *to = until,
            _ => spans.push((kind, point.at, until)),
        }
    }
    spans
}

fn before(now: Timestamp, minutes: i64) -> Timestamp {
    Timestamp::from_millis(now.as_millis().saturating_sub(minutes * 60_000))
}

/// A coordinate, to a tenth.
fn number(value: f64) -> String {
    format!("{value:.1}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::at;

    fn point(second: i64, delay_ms: Option<f64>) -> Point {
        Point {
            at: at(second),
            delay_ms,
            recommended_ms: delay_ms,
            ramping: false,
        }
    }

    const SCALE: fn() -> Scale = || Scale {
        top: 100.0,
        now: at(3600),
    };

    #[test]
    fn a_delay_holds_until_the_next_and_ends_where_hedging_does() {
        let points = [
            point(0, Some(100.0)),
            point(10, Some(100.0)),
            point(20, Some(50.0)),
            point(30, None),
            point(40, Some(50.0)),
        ];
        // 646 wide from 74 for an hour; 140 high from 12 for 100 ms.
        assert_eq!(
            path(&points, &SCALE(), |point| point.delay_ms),
            "M74.0 12.0H77.6V82.0H79.4M81.2 82.0H81.2"
        );
    }

    #[test]
    fn a_time_without_points_is_no_line() {
        let points = [point(0, Some(100.0)), point(1800, Some(100.0))];
        assert_eq!(
            path(&points, &SCALE(), |point| point.delay_ms),
            "M74.0 12.0M397.0 12.0H397.0"
        );
    }

    #[test]
    fn times_off_are_one_span_while_they_last() {
        let points = [
            point(0, None),
            point(10, None),
            point(20, Some(1.0)),
            point(30, None),
        ];
        assert_eq!(
            spans(&points, at(35)),
            [("off", at(0), at(20)), ("off", at(30), at(35))]
        );
        let left = [point(0, None), point(1800, None)];
        assert_eq!(
            spans(&left, at(1801)),
            [("off", at(0), at(60)), ("off", at(1800), at(1801))]
        );
    }

    #[test]
    fn the_scale_is_of_round_numbers() {
        for (most, top) in [(512.0, 1000.0), (500.0, 500.0), (1.2, 2.0), (0.03, 0.05)] {
            assert!(
                (round_up(most) / top - 1.0).abs() < 1e-9,
                "{most}: {}",
                round_up(most)
            );
        }
        for most in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!((round_up(most) - 1.0).abs() < f64::EPSILON);
        }
    }

    #[test]
    fn nothing_within_the_hour_is_no_chart() {
        let old = VecDeque::from([point(0, Some(1.0))]);
        assert!(chart("t", &old, at(3601)).is_none());
        assert!(chart("t", &VecDeque::new(), at(0)).is_none());
        assert!(chart("t", &old, at(3600)).is_some());
    }
}
