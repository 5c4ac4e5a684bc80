//! What a call tells in traces, in virtual time.

#![allow(clippy::unwrap_used)] // Helpers of tests.

mod common;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use common::document_with;
use hedgerow_client::Hedger;
use serde_json::json;
use tokio::time::sleep;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Subscriber, subscriber};
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::{Layer, Registry};

const MS: Duration = Duration::from_millis(1);

/// The fields of every span, in the order of their creation.
#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Vec<(Id, Fields)>>>);

#[derive(Clone, Debug, Default)]
struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }
}

impl<S: Subscriber> Layer<S> for Spans {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        if attributes.metadata().name() == "attempt" {
            let mut fields = Fields::default();
            attributes.record(&mut fields);
            self.0.lock().unwrap().push((id.clone(), fields));
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut spans = self.0.lock().unwrap();
        // Identities are used again: the newest is meant.
        if let Some((_, fields)) = spans.iter_mut().rev().find(|(of, _)| of == id) {
            values.record(fields);
        }
    }
}

impl Spans {
    fn told(&self) -> Vec<[String; 4]> {
        let spans = self.0.lock().unwrap();
        let told = |(_, fields): &(Id, Fields)| {
            ["target_name", "number", "kind", "outcome"]
                .map(|name| fields.0.get(name).cloned().unwrap_or_default())
        };
        spans.iter().map(told).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_is_a_span_that_tells_how_it_ended() {
    let spans = Spans::default();
    let _guard = subscriber::set_default(Registry::default().with(spans.clone()));
    let (hedger, feed) = Hedger::builder("shard-read").follow_feed();
    feed.update(document_with([
        ("/delayMs", json!(100)),
        ("/maxAttempts", json!(4)),
        ("/budget/minPerSecond", json!(1000)),
    ]))
    .unwrap();
    sleep(10 * MS).await;

    let call = hedger.call_checked(
        4,
        |attempt| async move {
            sleep([900 * MS, 50 * MS, 60 * MS, 70 * MS][attempt.number]).await;
            if attempt.number == 1 {
                Err("refused")
            } else {
                Ok(attempt.number)
            }
        },
        |number| {
            if *number == 2 { Err("stale".into()) } else { Ok(()) }
        },
    );
    assert_eq!(call.await, Ok(3));
    let expected = [
        ["shard-read", "0", "primary", "cancelled"],
        ["shard-read", "1", "hedge", "failed"],
        ["shard-read", "2", "hedge", "invalid"],
        ["shard-read", "3", "hedge", "won"],
    ];
    assert_eq!(spans.told(), expected);
}
