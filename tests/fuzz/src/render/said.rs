//! What a document tells its clients of hedging, read by parsers that did not write it.

use hocon_rs::Config;
use serde_json::Value;

use super::case::Kind;

/// A setting that lets a client hedge earlier, or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Said {
    /// A delay in milliseconds.
    DelayMs(f64),
    /// Attempts per call, the primary included.
    Attempts(f64),
    /// A budget, in per cent of the calls.
    Percent(f64),
}

/// All that a document says. Panics where it cannot be read.
pub(super) fn said(kind: Kind, document: &str) -> Vec<Said> {
    let mut found = Vec::new();
    match kind {
        Kind::GrpcServiceConfig | Kind::DotnetHedging | Kind::Kitex => {
            walk(&serde_json::from_str(document).expect("JSON"), "", &mut found);
        }
        Kind::EnvoyRoute | Kind::Loki | Kind::Tempo => {
            walk(&serde_saphyr::from_str(document).expect("YAML"), "", &mut found);
        }
        Kind::DataStax => {
            Config::parse_str::<hocon_rs::Value>(document, None).expect("HOCON");
            for line in document.lines() {
                let (key, value) = line.split_once('=').unwrap_or_default();
                leaf(key.trim(), &Value::from(value.trim()), &mut found);
            }
        }
        Kind::Cassandra => {
            for statement in document.lines().filter(|line| !line.starts_with("--")) {
                let fields: Vec<&str> = statement.split(['"', '\'']).collect();
                assert_eq!(fields.len(), 7, "{statement}");
                leaf("speculative_retry", &Value::from(fields[5]), &mut found);
            }
        }
        Kind::Hdfs => {
            let xml = roxmltree::Document::parse(document).expect("XML");
            for property in xml.descendants().filter(|node| node.has_tag_name("property")) {
                let text = |tag| {
                    let child = property.children().find(|child| child.has_tag_name(tag));
                    child.and_then(|child| child.text()).unwrap_or_default()
                };
                leaf(text("name"), &Value::from(text("value")), &mut found);
            }
        }
        Kind::Properties => {
            for (key, value) in java_properties::read(document.as_bytes()).expect("properties") {
                let last = key.rsplit('.').next().unwrap_or_default();
                leaf(last, &Value::from(value), &mut found);
            }
        }
    }
    found
}

fn walk(value: &Value, key: &str, found: &mut Vec<Said>) {
    match value {
        // How Kitex says off, beside settings that then mean nothing.
        Value::Object(map) if map.get("enable") == Some(&Value::Bool(false)) => {}
        Value::Object(map) => map.iter().for_each(|(key, value)| walk(value, key, found)),
        Value::Array(items) => items.iter().for_each(|item| walk(item, key, found)),
        _ => leaf(key, value, found),
    }
}

fn leaf(key: &str, value: &Value, found: &mut Vec<Said>) {
    let number = || value.as_f64().or_else(|| value.as_str()?.parse().ok());
    let said = match key {
        "per_try_timeout"
        | "hedgingDelay"
        | "Delay"
        | "retry_delay_ms"
        | "delay"
        | "at"
        | "hedge_requests_at"
        | "dfs.client.hedged.read.threshold.millis"
        | "delayMs"
        | "speculative_retry" => number().or_else(|| millis(value.as_str()?)).map(Said::DelayMs),
        "num_retries" | "MaxHedgedAttempts" | "max_retry_times" => {
            number().map(|hedges| Said::Attempts(hedges + 1.0))
        }
        "maxAttempts" | "max-executions" | "up_to" | "hedge_requests_up_to" => number().map(Said::Attempts),
        "error_rate" => number().map(|share| Said::Percent(share * 100.0)),
        "percent" => number().map(Said::Percent),
        _ => None,
    };
    found.extend(said);
}

/// `0.512s`, `512ms`, `512 milliseconds` or `00:00:00.5120000`.
fn millis(text: &str) -> Option<f64> {
    for (unit, ms) in [(" milliseconds", 1.0), ("ms", 1.0), ("s", 1000.0)] {
        if let Some(number) = text.strip_suffix(unit) {
            return Some(number.parse::<f64>().ok()? * ms);
        }
    }
    let (sign, text) = text.strip_prefix('-').map_or((1.0, text), |text| (-1.0, text));
    let fields = text
        .split(':')
        .map(str::parse)
        .collect::<Result<Vec<f64>, _>>()
        .ok()?;
    let [hours, minutes, seconds] = fields[..] else {
        return None;
    };
    Some(sign * ((hours * 60.0 + minutes) * 60.0 + seconds) * 1000.0)
}
