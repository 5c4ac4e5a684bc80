use axum::body::{Body, to_bytes};
use axum::http::StatusCode;
use hedgerow_tests::{Browser, Look, file_url};
use hedgerow_tuner::{Diagnosis, DiagnosisReason, Unknown, UnknownReason};
use tower::ServiceExt;

use super::trail::{POINTS, Trails};
use super::*;
use crate::cluster::PolicyKey;
use crate::fixtures::{at, follow, index, policy, read, sample, unknown, unread, written_spec};
use crate::index::{self, TargetKey};
use crate::status::Written;

fn shown(index: &Index, trails: &Trails, leads: bool) -> String {
    let seen = view::Seen {
        instance: "hedgerow",
        leads,
        policies: &index.views(),
        watches: &[],
        trails: &trails.all(),
        now: at(60),
        renewed: None,
    };
    view::page(&seen).into_string()
}

/// A policy whose first document, which is off, is written: what is decided next is told.
fn published(index: &Index, policy: &PolicyKey) {
    index.decide(policy, at(0));
    let outcome = index::Outcome {
        written: [("kb-hedging".to_owned(), Written::Published)].into(),
        ..index::Outcome::default()
    };
    index.set_outcome(policy, outcome, at(0));
}

fn told() -> (Index, Trails) {
    let (index, trails) = (index(), Trails::default());
    published(&index, &policy());
    sample(&index, at(0), |now| read(now, 3.0));
    trails.keep(&index.views(), at(10));
    (index, trails)
}

#[test]
fn a_target_is_shown_with_its_reason_its_readings_and_its_past() {
    let (index, trails) = told();
    let page = shown(&index, &trails, true);
    for part in [
        "helpdesk/kb-search",
        "shard-read",
        "coming back",
        "500ms",
        "queue",
        "below its line",
        "<svg",
        "<path",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
}

#[test]
fn what_is_unknown_is_no_number() {
    let index = index();
    sample(&index, at(0), unread);
    let page = shown(&index, &Trails::default(), true);
    assert!(page.contains("the source cannot be reached"), "{page}");
    assert!(!page.contains("0ms") && page.contains("–"), "{page}");
}

#[test]
fn a_replica_that_does_not_lead_says_so() {
    let page = shown(&Index::default(), &Trails::default(), false);
    assert!(page.contains("does not lead"), "{page}");
    assert!(shown(&Index::default(), &Trails::default(), true).contains("No policy"));
}

/// Names are limited by the API server, and messages quote what Prometheus said.
#[test]
fn nothing_that_others_wrote_is_markup() {
    const EVIL: &str = r#"<script>alert('x')</script>"><img src=x onerror=alert(1)>"#;
    let index = index();
    sample(&index, at(0), |now| read(now, 80.0));
    let trails = Trails::default();
    trails.keep(&index.views(), at(10));
    let trail: Vec<_> = trails.all().into_values().collect();
    let mut policies = index.views();
    let evil = PolicyKey::new(EVIL, EVIL);
    let why = Unknown::new(UnknownReason::QueryInvalid, EVIL);
    for (policy, targets) in &mut policies {
        *policy = evil.clone();
        for target in targets {
            target.name = EVIL.to_owned();
            let decision = target.decision.as_mut().unwrap();
            decision.message = EVIL.to_owned().into();
            decision.low_confidence = Some(EVIL.to_owned());
            decision.latency.unknown = Some(why.clone());
            for signal in &mut decision.signals {
                signal.name = EVIL.to_owned();
                signal.unknown = Some(why.clone());
            }
            let message = EVIL.to_owned();
            decision.diagnoses.push(Diagnosis {
                reason: DiagnosisReason::TooSlow,
                message,
            });
        }
    }
    let key = TargetKey {
        policy: evil,
        target: EVIL.to_owned(),
    };
    let trails = [(key, trail[0].clone())].into();
    let caches = Caches::default();
    caches.slot("HedgePolicies", Some(EVIL)).failed(EVIL.to_owned());
    let seen = view::Seen {
        instance: EVIL,
        leads: true,
        policies: &policies,
        watches: &caches.watched(),
        trails: &trails,
        now: at(60),
        renewed: None,
    };
    let page = view::page(&seen).into_string();
    assert!(page.matches("&lt;script&gt;").count() >= 10, "{page}");
    for markup in ["<script", "<img"] {
        assert!(!page.contains(markup), "{page}");
    }
    // In an attribute nothing ends it.
    assert!(!page.contains(r#""><img"#), "{page}");
}

#[test]
fn of_the_past_an_hour_is_kept_and_nothing_of_what_is_gone() {
    let (index, trails) = told();
    for second in 0..2 * i64::try_from(POINTS).unwrap() {
        trails.keep(&index.views(), at(10 * second));
    }
    let kept = trails.all();
    assert_eq!(
        kept.values()
            .map(std::collections::VecDeque::len)
            .collect::<Vec<_>>(),
        [POINTS]
    );
    index.forget(&policy());
    trails.keep(&index.views(), at(9000));
    assert!(trails.all().is_empty());
}

#[test]
fn after_a_step_of_the_clock_back_the_past_does_not_lie_ahead() {
    let (index, trails) = told();
    trails.keep(&index.views(), at(5000));
    trails.keep(&index.views(), at(1000));
    let times: Vec<_> = trails
        .all()
        .into_values()
        .flatten()
        .map(|point| point.at)
        .collect();
    assert_eq!(times, [at(10), at(1000)]);
}

async fn asked(host: &str, path: &str) -> Response {
    let (_, leads) = watch::channel(true);
    let page = Page::new(index(), Caches::default(), leads, "hedgerow");
    let request = Request::builder()
        .uri(path)
        .header(header::HOST, host)
        .body(Body::empty())
        .unwrap();
    page.router().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn it_answers_to_names_of_loopback_alone() {
    for host in ["localhost:8082", "127.0.0.1:1", "[::1]:8082", "localhost"] {
        assert_eq!(asked(host, "/").await.status(), StatusCode::OK, "{host}");
    }
    for host in [
        "evil.example",
        "localhost.evil.example:8082",
        "127.0.0.1.nip.example",
        "",
    ] {
        assert_eq!(asked(host, "/").await.status(), StatusCode::FORBIDDEN, "{host}");
    }
}

#[tokio::test]
async fn a_browser_may_do_nothing_with_it_but_show_it() {
    let response = asked("localhost", "/?live=true").await;
    let of = |name| response.headers()[name].to_str().unwrap().to_owned();
    let policy = of(header::CONTENT_SECURITY_POLICY);
    assert!(
        policy.starts_with("default-src 'none'; style-src 'self';"),
        "{policy}"
    );
    assert_eq!(of(header::X_CONTENT_TYPE_OPTIONS), "nosniff");
    let body = to_bytes(response.into_body(), 1 << 20).await.unwrap();
    let page = String::from_utf8(body.to_vec()).unwrap();
    assert!(page.contains(r#"http-equiv="refresh" content="10""#));
    // Nothing that the policy would refuse, and nothing from elsewhere.
    for refused in ["style=", "<style", "<script", "http://", "https://", "onclick"] {
        assert!(!page.contains(refused), "{refused} is in {page}");
    }
    assert_eq!(asked("localhost", "/style.css").await.status(), StatusCode::OK);
    assert_eq!(asked("localhost", "/?live=maybe").await.status(), StatusCode::OK);
}

/// An hour in which the delay followed the latency, the service was overloaded once, and hedging came back.
fn an_hour() -> std::collections::VecDeque<trail::Point> {
    let points = (0..360_i32).map(|step| {
        let wave = (f64::from(step) / 40.0).sin();
        let recommended = 420.0 + 60.0 * wave;
        let off = (170..215).contains(&step);
        let used = 400.0 + 20.0 * f64::from(step / 60);
        trail::Point {
            at: at(10 * i64::from(step)),
            delay_ms: (!off).then_some(used),
            recommended_ms: (!(180..195).contains(&step)).then_some(recommended),
            ramping: (215..250).contains(&step),
        }
    });
    points.collect()
}

#[test]
fn a_browser_shows_it_in_light_and_dark_and_on_a_phone() {
    let Some(browser) = Browser::find() else { return };
    let index = index();
    let other = PolicyKey::new("shop", "basket");
    index.follow(&other, follow(&written_spec()), unknown);
    let third = PolicyKey::new("shop", "catalogue");
    index.follow(&third, follow(&written_spec()), unknown);
    for policy in [policy(), other, third] {
        published(&index, &policy);
    }
    sample(&index, at(3590), |now| read(now, 3.0));
    let mut policies = index.views();
    let change = |decision: &mut hedgerow_tuner::Decision, switch, percent| {
        decision.switch = switch;
        decision.reason = hedgerow_tuner::Reason::Tuned;
        decision
            .orders
            .hedging
            .iter_mut()
            .for_each(|hedging| hedging.percent = percent);
    };
    for (number, (_, targets)) in policies.iter_mut().enumerate() {
        for decision in targets.iter_mut().filter_map(|target| target.decision.as_mut()) {
            match number {
                0 => change(decision, hedgerow_tuner::SwitchState::Closed, 10.0),
                1 => {
                    decision.orders.hedging = None;
                    decision.reason = hedgerow_tuner::Reason::Saturated;
                    decision.message = "queue is 80, above 50; back once it has been under 35 for 2m"
                        .to_owned()
                        .into();
                    decision
                        .signals
                        .iter_mut()
                        .for_each(|signal| (signal.saturated, signal.value) = (true, Some(80.0)));
                }
                _ => decision.low_confidence = Some("412 samples in 10m, and p95 wants 400".to_owned()),
            }
        }
    }
    let mut trails = std::collections::BTreeMap::new();
    for (policy, _) in &policies[..2] {
        let target = "shard-read".to_owned();
        trails.insert(
            TargetKey {
                policy: policy.clone(),
                target,
            },
            an_hour(),
        );
    }
    let seen = view::Seen {
        instance: "hedgerow",
        leads: true,
        policies: &policies,
        watches: &[],
        trails: &trails,
        now: at(3600),
        renewed: None,
    };
    let folder = hedgerow_tests::scratch("page").unwrap();
    std::fs::write(folder.join("style.css"), STYLE).unwrap();
    std::fs::write(folder.join("page.html"), view::page(&seen).into_string()).unwrap();
    let url = file_url(&folder.join("page.html"));
    for (name, width, dark) in [
        ("light", 1000, false),
        ("dark", 1000, true),
        ("phone", 500, false),
    ] {
        let look = Look {
            width,
            height: 1500,
            dark,
        };
        let picture = browser
            .picture(&format!("status-page-{name}"), &url, look)
            .unwrap();
        println!("screenshot: {}", picture.display());
    }
}
