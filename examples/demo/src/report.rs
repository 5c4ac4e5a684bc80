//! The report: one HTML file that needs nothing else, with the plots drawn as SVG.

use std::fmt::Write as _;

use anyhow::{Result, anyhow};
use hedgerow_stage::Expectation;
use plotters::prelude::*;

use crate::record::{Phase, Record};

const SIZE: (u32, u32) = (1080, 230);
const FONT: &str = "system-ui, sans-serif";
const BLUE: RGBColor = RGBColor(0x1f, 0x6f, 0xb2);
const ORANGE: RGBColor = RGBColor(0xd9, 0x6c, 0x06);
const GREY: RGBColor = RGBColor(0x6b, 0x72, 0x80);
/// Misses and hedges are rare events: shorter windows show noise, longer ones blur the phases.
const ROLLING_SECONDS: f64 = 15.0;

/// One line in a plot.
struct Line {
    name: &'static str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

/// The report as HTML.
pub(crate) fn html(record: &Record, expectations: &[Expectation]) -> Result<String> {
    let mut page = String::from(HEAD);
    page.push_str(&table(expectations));
    for (title, unit, lines) in plots(record) {
        write!(
            page,
            "<h2>{title}</h2>\n<figure><figcaption>{}</figcaption>{}</figure>\n",
            legend(&lines),
            plot(record, unit, &lines)?
        )?;
    }
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(page)
}

fn plots(record: &Record) -> Vec<(&'static str, &'static str, Vec<Line>)> {
    let each =
        |value: fn(&crate::record::Sample) -> Option<f64>| record.rolling(0.0, move |_, now| value(now));
    vec![
        (
            "Hedge delay against the true p95",
            "ms",
            vec![
                Line {
                    name: "true p95 of a replica",
                    colour: GREY,
                    points: each(|s| Some(s.true_p95_ms)),
                },
                Line {
                    name: "delay in the document (0: off)",
                    colour: BLUE,
                    points: each(|s| Some(s.document.delay_ms.unwrap_or(0.0))),
                },
            ],
        ),
        (
            "Queries that miss a section",
            "%",
            vec![Line {
                name: "missed, last 15 s",
                colour: ORANGE,
                points: record.rolling(ROLLING_SECONDS, |then, now| {
                    now.miss_share_since(then).map(|x| 100.0 * x)
                }),
            }],
        ),
        (
            "Extra reads: hedges per 100 shard calls, and the budget",
            "%",
            vec![
                Line {
                    name: "hedges, last 15 s",
                    colour: BLUE,
                    points: record.rolling(ROLLING_SECONDS, |then, now| {
                        now.hedge_share_since(then).map(|x| 100.0 * x)
                    }),
                },
                Line {
                    name: "budget in the document (0: off)",
                    colour: GREY,
                    points: each(|s| Some(s.document.percent)),
                },
            ],
        ),
        (
            "Deepest replica queue",
            "calls",
            vec![Line {
                name: "queue depth",
                colour: ORANGE,
                points: each(|s| s.queue_depth),
            }],
        ),
        (
            "The switch: 0 off, 25 and 50 ramping, 100 hedging",
            "% of budget",
            vec![Line {
                name: "share of the budget",
                colour: BLUE,
                points: switch_state(record),
            }],
        ),
    ]
}

/// The share of the full budget that the document gives; the full budget is the largest one seen.
fn switch_state(record: &Record) -> Vec<(f64, f64)> {
    let full = record
        .samples
        .iter()
        .map(|s| s.document.percent)
        .fold(0.0, f64::max);
    let share = |percent: f64| if full > 0.0 { 100.0 * percent / full } else { 0.0 };
    record
        .samples
        .iter()
        .map(|s| (s.at, share(s.document.percent)))
        .collect()
}

fn plot(record: &Record, unit: &str, lines: &[Line]) -> Result<String> {
    let end = record.samples.last().map_or(1.0, |s| s.at.max(1.0));
    let top = lines
        .iter()
        .flat_map(|l| &l.points)
        .map(|&(_, y)| y)
        .fold(0.0, f64::max)
        .max(1e-3)
        * 1.15;
    let mut svg = String::new();
    draw(&mut svg, &record.phases, (end, top), unit, lines)
        .map_err(|e| anyhow!("cannot draw a plot: {e}"))?;
    Ok(svg)
}

fn draw(
    svg: &mut String,
    phases: &[Phase],
    (end, top): (f64, f64),
    unit: &str,
    lines: &[Line],
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .x_label_area_size(28)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    for (index, phase) in phases.iter().enumerate() {
        let shade = BLUE.mix(if index % 2 == 0 { 0.05 } else { 0.11 });
        chart.draw_series([Rectangle::new(
            [(phase.from, 0.0), (phase.to, top)],
            shade.filled(),
        )])?;
        chart.draw_series([Text::new(
            phase.title,
            // Staggered, so that the titles of short phases do not run into each other.
            (
                phase.from + end / 200.0,
                top * if index % 2 == 0 { 0.97 } else { 0.9 },
            ),
            (FONT, 12).into_font().color(&GREY),
        )])?;
    }
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.08))
        .axis_style(BLACK.mix(0.3))
        .x_desc("seconds")
        .y_desc(unit)
        .label_style((FONT, 12))
        .draw()?;
    for line in lines {
        chart.draw_series(LineSeries::new(
            line.points.iter().copied(),
            line.colour.stroke_width(2),
        ))?;
    }
    area.present()?;
    Ok(())
}

fn legend(lines: &[Line]) -> String {
    let entry = |line: &Line| {
        let RGBColor(red, green, blue) = line.colour;
        format!(
            "<span style=\"color: rgb({red} {green} {blue})\">&#9644; {}</span>",
            line.name
        )
    };
    lines.iter().map(entry).collect::<Vec<_>>().join(" ")
}

fn table(expectations: &[Expectation]) -> String {
    let mut rows = String::new();
    for e in expectations {
        let (class, verdict) = if e.holds() {
            ("ok", "as expected")
        } else {
            ("bad", "not as expected")
        };
        rows.push_str(&format!(
            "<tr class=\"{class}\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{verdict}</td></tr>\n",
            e.phase,
            e.what,
            e.expected,
            e.shown()
        ));
    }
    format!(
        "<table>\n<thead><tr><th>Phase</th><th>What</th><th>Expected</th><th>Measured</th><th></th></tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n"
    )
}

const HEAD: &str = r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Hedgerow: the help-desk demo</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #1f2937; background: #fff; margin: 0; }
main { max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.05rem; margin: 1.6rem 0 .2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #e5e7eb; font-variant-numeric: tabular-nums; }
tr.ok td:last-child { color: #15803d; } tr.bad td { color: #b91c1c; font-weight: 600; }
figure { margin: 0; } figcaption { font-size: .85rem; } figcaption span { margin-right: 1rem; } svg { max-width: 100%; height: auto; }
</style>
</head>
<body>
<main>
<h1>Hedgerow: the help-desk demo</h1>
<p>A front end fans each query out to 8 shards of 2 replicas and answers after 1 s with what it has. Every part ran for
real: kube-apiserver, etcd, Prometheus, the operator under its own RBAC, the replicas and the front end over HTTP.</p>
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Document, Sample};

    #[test]
    fn a_report_shows_every_plot_and_marks_what_did_not_hold() {
        let sample = |at| Sample {
            at,
            queries: 50.0 * at,
            missed: 7.0 * at,
            calls: 400.0 * at,
            hedges: 20.0 * at,
            queue_depth: Some(3.0),
            true_p95_ms: 500.0,
            document: Document {
                delay_ms: Some(512.0),
                percent: 10.0,
            },
        };
        let record = Record {
            samples: (0..30).map(|i| sample(f64::from(i))).collect(),
            phases: vec![Phase {
                title: "tuned",
                from: 0.0,
                to: 29.0,
            }],
        };
        let bad = Expectation {
            phase: "tuned",
            what: "misses, %",
            expected: "0.80".into(),
            accepted: (0.0, 2.0),
            measured: None,
            decimals: 2,
        };
        let page = html(&record, &[bad]).unwrap();
        assert_eq!(page.matches("<svg").count(), 5);
        assert!(page.contains("class=\"bad\"") && page.contains("never"));
        assert!(
            !page.contains("http-equiv") && !page.contains("src="),
            "the report must need no other file"
        );
    }

    #[test]
    fn a_report_of_nothing_is_still_a_report() {
        assert!(html(&Record::default(), &[]).is_ok());
    }
}
