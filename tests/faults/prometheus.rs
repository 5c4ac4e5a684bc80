//! What a source does wrong. Each fault has a source of its own, which is the same Prometheus by way of a gate; one operator
//! reads all of them at the same time, and one source that is always well.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use axum::body::Bytes;
use futures::future::join_all;
use hedgerow_tests::{Act, Asked, Gate, scratch, steadily};
use http::{HeaderMap, StatusCode};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use crate::observer::{Observer, tell};
use crate::policy::{KEY, with};
use crate::scene::{Scene, document};
use crate::stage::{now, peak_memory, policy_of, says};

/// Names, as docs/faults.md has them.
pub(crate) const FAULTS: [&str; 12] = [
    "reset-in-mid-body",
    "body-of-200-mb",
    "html-with-200",
    "token-changed",
    "half-an-answer",
    "partial-answers",
    "warnings",
    "answers-of-another-query",
    "clock-10-minutes-ahead",
    "clock-10-minutes-behind",
    "empty-storage",
    "the-other-source-dead",
];

/// Longer than `maxUnknown` and `maxStaleness` of the policies.
const A_WHILE: Duration = Duration::from_secs(15);
/// What the operator may need at most, in MiB: the aim at ten thousand policies.
const MOST_MEMORY: u64 = 150;

/// What is wrong with a source; the faults that are none of its answers are not here.
fn wrong(name: &str) -> Box<dyn Fn(&Asked) -> Act + Send + Sync> {
    match name {
        "reset-in-mid-body" => Box::new(|_| Act::BreakOff(40)),
        "body-of-200-mb" => Box::new(|_| Act::Flood(200 << 20)),
        "html-with-200" => Box::new(|_| {
            let page = "<html><title>Sign in</title></html>";
            Act::Answer(
                StatusCode::OK,
                vec![("content-type", "text/html".into())],
                page.into(),
            )
        }),
        "half-an-answer" => Box::new(|_| Act::Change(None, half)),
        "partial-answers" => Box::new(|_| {
            Act::Change(None, |headers, body| {
                edited(headers, &body, |answer| {
                    answer["isPartial"] = json!(true);
                })
            })
        }),
        "warnings" => Box::new(|_| {
            Act::Change(None, |headers, body| {
                edited(headers, &body, |answer| {
                    answer["warnings"] = json!(["a store is down"]);
                })
            })
        }),
        "answers-of-another-query" => {
            let last = Mutex::new((Bytes::new(), Bytes::new()));
            Box::new(move |asked| {
                let mut last = last.lock().unwrap();
                if query(&last.0) != query(&asked.body) {
                    let before = std::mem::replace(&mut last.0, asked.body.clone());
                    last.1 = before;
                }
                Act::Instead(last.1.clone())
            })
        }
        "clock-10-minutes-ahead" => Box::new(|asked| {
            Act::Change(Some(asked_at(&asked.body, -OFF)), |headers, body| {
                shifted(headers, &body, OFF)
            })
        }),
        "clock-10-minutes-behind" => Box::new(|asked| {
            Act::Change(Some(asked_at(&asked.body, OFF)), |headers, body| {
                shifted(headers, &body, -OFF)
            })
        }),
        _ => Box::new(|_| Act::Pass),
    }
}

/// Ten minutes, in seconds.
const OFF: i64 = 600;

fn query(form: &Bytes) -> String {
    let text = String::from_utf8_lossy(form).into_owned();
    text.split('&')
        .find(|part| part.starts_with("query="))
        .unwrap_or_default()
        .to_owned()
}

/// A form that asks for another time.
fn asked_at(form: &Bytes, later: i64) -> Bytes {
    let text = String::from_utf8_lossy(form).into_owned();
    let parts: Vec<_> = text
        .split('&')
        .map(|part| {
            match part
                .strip_prefix("time=")
                .and_then(|time| time.parse::<f64>().ok())
            {
                Some(time) => format!("time={}", time + later as f64),
                None => part.to_owned(),
            }
        })
        .collect();
    parts.join("&").into()
}

fn edited(headers: HeaderMap, body: &Bytes, edit: fn(&mut Value)) -> (HeaderMap, Bytes) {
    let Ok(mut answer) = serde_json::from_slice(body) else {
        return (headers, body.clone());
    };
    edit(&mut answer);
    (headers, answer.to_string().into())
}

/// Without every second series, and nothing says so.
fn half(headers: HeaderMap, body: Bytes) -> (HeaderMap, Bytes) {
    edited(headers, &body, |answer| {
        if let Some(Value::Array(result)) = answer.pointer_mut("/data/result") {
            let mut keep = false;
            result.retain(|_| {
                keep = !keep;
                keep
            });
        }
    })
}

/// As a server answers whose clock is ahead by so many seconds.
fn shifted(mut headers: HeaderMap, body: &Bytes, by: i64) -> (HeaderMap, Bytes) {
    let date = Timestamp::from_second(now().as_second() + by).unwrap();
    let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
    headers.insert("date", date.parse().unwrap());
    let Ok(mut answer) = serde_json::from_slice::<Value>(body) else {
        return (headers, body.clone());
    };
    let series = answer.pointer_mut("/data/result").and_then(Value::as_array_mut);
    for one in series.into_iter().flatten() {
        let at = one["value"][0].as_f64().unwrap_or_default();
        one["value"][0] = json!(at + by as f64);
        if one["metric"]["hedgerow_part"] == "newest" {
            let newest: f64 = one["value"][1]
                .as_str()
                .unwrap_or_default()
                .parse()
                .unwrap_or_default();
            one["value"][1] = json!((newest + by as f64).to_string());
        }
    }
    (headers, answer.to_string().into())
}

/// What is expected while a fault lasts.
fn goes_off(name: &str) -> Option<bool> {
    match name {
        "clock-10-minutes-ahead" | "clock-10-minutes-behind" | "the-other-source-dead" => Some(false),
        // Enough is scraped anew in a few seconds.
        "empty-storage" => None,
        _ => Some(true),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_fault_of_a_source_makes_hedging_less_safe() {
    let folder = scratch("sources").unwrap();
    let token_file = folder.join("token");
    std::fs::write(&token_file, "first").unwrap();
    let token = Arc::new(Mutex::new("first"));
    let gates = join_all(FAULTS.map(async |_| Gate::start().await.unwrap())).await;
    let mut sources: Vec<_> = FAULTS
        .iter()
        .zip(&gates)
        .map(|(name, gate)| json!({ "name": name, "url": gate.url(), "namespaces": ["*"], "timeout": "2s" }))
        .collect();
    sources[3]["authentication"] = json!({ "bearer": { "tokenFile": token_file } });
    let scene = Scene::with_operator("sources", |operator| operator.set("sources", json!(sources))).await;
    let mut emptied = scene.service.scraped().await;
    for (name, gate) in FAULTS.iter().zip(&gates) {
        let server = if *name == "empty-storage" {
            &emptied
        } else {
            &scene.prometheus
        };
        gate.lead_to(&server.url(), None).unwrap();
    }
    let wanted = Arc::clone(&token);
    gates[3].set(move |asked| {
        let expected = format!("Bearer {}", wanted.lock().unwrap());
        match asked.headers.get("authorization") {
            Some(given) if given.as_bytes() == expected.as_bytes() => Act::Pass,
            _ => Act::Answer(StatusCode::UNAUTHORIZED, Vec::new(), String::new()),
        }
    });
    for name in FAULTS {
        scene
            .apply(&with(policy_of(name), "/spec/source", json!(name)))
            .await;
    }
    join_all(FAULTS.map(async |name| says(&scene.namespace, name, &["Tuned"]).await.unwrap())).await;

    let fault = now();
    for (name, gate) in FAULTS.iter().zip(&gates) {
        match *name {
            "token-changed" => *token.lock().unwrap() = "second",
            "empty-storage" => {
                emptied.stop().await.unwrap();
                std::fs::remove_dir_all(emptied.folder().join("data")).unwrap();
                emptied.start().await.unwrap();
            }
            _ => gate.set(wrong(name)),
        }
    }
    let meanwhile = join_all(FAULTS.map(async |name| lasts(&scene, name).await)).await;
    let good = now();
    for (name, gate) in FAULTS.iter().zip(&gates) {
        match *name {
            // The server keeps the new one, and the mounted file follows.
            "token-changed" => std::fs::write(&token_file, "second").unwrap(),
            _ => gate.heal(),
        }
    }
    let after = join_all(FAULTS.map(async |name| says(&scene.namespace, name, &["Tuned"]).await)).await;

    let rows = FAULTS
        .iter()
        .zip(meanwhile)
        .zip(after)
        .map(|((name, meanwhile), after)| {
            let observer = Observer::of(&scene.audit, &scene.namespace, name);
            // Readings are good in an empty storage as soon as there are any.
            let good = if *name == "empty-storage" { fault } else { good };
            let row = meanwhile.and(after).and_then(|_| observer.row(name, fault, good));
            (*name, row)
        });
    tell(rows.collect());
    let peak = peak_memory(&scene.operator);
    println!("at most {peak} MiB in use");
    assert!(peak < MOST_MEMORY, "{peak} MiB");
}

/// Waits for what is expected while a fault lasts.
async fn lasts(scene: &Scene, name: &str) -> Result<()> {
    match goes_off(name) {
        Some(true) => says(&scene.namespace, name, &["SaturationUnknown", "LatencyUnknown"])
            .await
            .map(drop),
        Some(false) => {
            let before = document(&scene.namespace, name, KEY).await?;
            steadily(&format!("{name} changes nothing"), A_WHILE, async || {
                let after = document(&scene.namespace, name, KEY).await?;
                ensure!(after["revision"] == before["revision"], "{before}, then {after}");
                Ok(())
            })
            .await
        }
        None => {
            tokio::time::sleep(A_WHILE).await;
            Ok(())
        }
    }
}
