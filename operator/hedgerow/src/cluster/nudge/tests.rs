//! Who waits for whom, in virtual time: an API server that answers at once, so that nothing takes time but the rate.

use std::convert::Infallible;

use http::{Method, Request, Response};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tower::service_fn;

use super::super::fence::Fence;
use super::*;

const PER_SECOND: usize = 10;
/// Pods of each output; the app of an output is its number.
const PODS: usize = 40;

/// An API server on which every label selects so many pods, and which knows who was nudged and when.
#[derive(Clone, Default)]
struct Api {
    /// The pods that a label selects where it is not [`PODS`].
    pods: BTreeMap<String, usize>,
    /// The rights that are missing, as `verb resource/subresource`.
    denied: Arc<Mutex<BTreeSet<String>>>,
    nudged: Arc<Mutex<Vec<(Instant, String)>>>,
    questions: Arc<Mutex<Vec<String>>>,
}

impl Api {
    fn nudger(&self) -> (Nudger, JoinSet<()>) {
        let api = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        let limits = NudgeLimits {
            pods: 1000,
            rate: WriteRate {
                per_second: PER_SECOND as f64,
                burst: 1.0,
            },
        };
        let nudger = Nudger::new(
            Client::new(service, "default"),
            Writer::new(Fence::open(), Arc::new(|_, _| {})),
            Changes::default(),
            Some(limits),
        );
        let mut workers = JoinSet::new();
        for _ in 0..4 {
            let nudger = nudger.clone();
            workers.spawn(async move { nudger.run().await });
        }
        (nudger, workers)
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let answer = match *request.method() {
            Method::GET => self.list(request.uri().query().unwrap_or_default()),
            Method::PATCH => {
                let pod = path.split('/').rev().nth(1).unwrap().to_owned();
                self.nudged.lock().unwrap().push((Instant::now(), pod.clone()));
                json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": pod } })
            }
            _ => {
                let body = request.into_body().collect_bytes().await.unwrap();
                self.review(serde_json::from_slice(&body).unwrap())
            }
        };
        Response::new(Body::from(answer.to_string().into_bytes()))
    }

    fn list(&self, query: &str) -> Value {
        let (_, app) = query.split_once("app%3D").unwrap();
        let app = app.split('&').next().unwrap();
        let pods = self.pods.get(app).copied().unwrap_or(PODS);
        let pod = |number| {
            json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                    "metadata": { "name": format!("{app}-{number}"), "uid": "u" } })
        };
        json!({
            "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {},
            "items": (0..pods).map(pod).collect::<Vec<_>>(),
        })
    }

    fn review(&self, mut review: Value) -> Value {
        let asked = &review["spec"]["resourceAttributes"];
        let text = |key: &str| asked[key].as_str().unwrap_or_default();
        let right = format!("{} {}/{}", text("verb"), text("resource"), text("subresource"));
        let allowed = !self.denied.lock().unwrap().contains(&right);
        self.questions.lock().unwrap().push(right);
        review["status"] = json!({ "allowed": allowed });
        review
    }

    fn nudged(&self) -> Vec<(Instant, String)> {
        self.nudged.lock().unwrap().clone()
    }

    /// Waits until so many pods are nudged whose names begin like this, and returns when the last was.
    async fn until(&self, app: &str, number: usize) -> Instant {
        let reached = async {
            loop {
                let of_app: Vec<_> = self
                    .nudged()
                    .into_iter()
                    .filter(|(_, pod)| pod.starts_with(app))
                    .collect();
                if let Some((at, _)) = of_app.get(number - 1) {
                    return *at;
                }
                sleep(Duration::from_millis(500)).await;
            }
        };
        timeout(Duration::from_secs(3600), reached).await.unwrap()
    }
}

fn policy(name: &str) -> PolicyKey {
    PolicyKey::new("helpdesk", name)
}

fn output(name: &str) -> NamespacedName {
    NamespacedName::new("helpdesk", name)
}

/// One output of each name, whose pods have it as their app.
fn outputs(names: &[String]) -> BTreeMap<NamespacedName, Vec<PodLabels>> {
    let of = |name: &String| (output(name), vec![[("app".to_owned(), name.clone())].into()]);
    names.iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn a_policy_with_very_many_pods_does_not_keep_another_waiting() {
    let api = Api {
        pods: [("small".to_owned(), 3)].into(),
        ..Api::default()
    };
    let (nudger, _workers) = api.nudger();
    let many: Vec<String> = (10..26).map(|number| format!("big{number}")).collect();
    nudger.note_readers(&policy("big"), outputs(&many));
    nudger.note_readers(&policy("small"), outputs(&["small".to_owned()]));
    for name in &many {
        nudger.is_safer(&output(name), "7");
    }
    let begun = Instant::now();
    sleep(Duration::from_secs(5)).await;
    nudger.is_safer(&output("small"), "7");
    let asked = Instant::now();
    let done = api.until("small", 3).await;
    // Before it there are what four workers have in hand, 8 pods each, and as many that wait behind a worker that is free.
    let before_it = Duration::from_secs_f64((2 * 4 * AT_ONCE + 3) as f64 / PER_SECOND as f64);
    assert!(done - asked <= before_it, "{:?}", done - asked);

    // The outputs of the large one come on alike, and the rate is what it was said to be.
    let mut done = BTreeMap::<String, usize>::new();
    for (_, pod) in api.nudged() {
        let (app, _) = pod.split_once('-').unwrap();
        *done.entry(app.to_owned()).or_default() += 1;
    }
    let most = many.iter().map(|name| done.get(name).copied().unwrap_or(0)).max();
    assert!(
        most <= Some(AT_ONCE),
        "of none a second portion before the first of each: {done:?}"
    );
    let last = api.until("big", many.len() * PODS).await;
    let expected = (many.len() * PODS + 3 - 1) as f64 / PER_SECOND as f64;
    let took = (last - begun).as_secs_f64();
    assert!(
        (expected..expected * 1.05).contains(&took),
        "{took} s instead of {expected}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_policy_names_no_longer_is_nudged_until_it_has_ended() {
    let api = Api::default();
    let (nudger, _workers) = api.nudger();
    let (kb, left) = (policy("kb"), output("left"));
    nudger.note_readers(&kb, outputs(&["left".to_owned(), "stays".to_owned()]));
    nudger.note_readers(&kb, outputs(&["stays".to_owned()]));
    nudger.is_safer(&left, "7");
    api.until("left", PODS).await;
    nudger.ended(&left);
    nudger.is_safer(&left, "8");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(api.nudged().len(), PODS);
}

#[tokio::test(start_paused = true)]
async fn an_output_that_no_longer_asks_for_it_is_not_nudged() {
    let api = Api::default();
    let (nudger, _workers) = api.nudger();
    nudger.note_readers(&policy("kb"), outputs(&["a".to_owned()]));
    nudger.note_readers(&policy("kb"), [(output("a"), Vec::new())].into());
    nudger.is_safer(&output("a"), "7");
    sleep(Duration::from_secs(60)).await;
    assert_eq!(api.nudged(), []);
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_found_when_pods_are_named_and_seen_when_it_is_granted() {
    let api = Api::default();
    let right = "patch pods/status".to_owned();
    api.denied.lock().unwrap().insert(right.clone());
    let (nudger, _workers) = api.nudger();
    let kb = policy("kb");
    nudger.note_readers(&kb, outputs(&["a".to_owned()]));
    let changed = nudger.inner.changes.take().await;
    assert!(changed.contains(&kb), "people are told");
    let why = nudger.refusal(&kb).unwrap();
    assert!(
        why.contains("may not patch pods/status in namespace helpdesk"),
        "{why}"
    );
    assert!(why.contains("nudge: true"), "{why}");
    assert_eq!(
        *api.questions.lock().unwrap(),
        ["list pods/", "patch pods/status"]
    );
    // Looking at the policy again asks nothing.
    nudger.note_readers(&kb, outputs(&["a".to_owned()]));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(api.questions.lock().unwrap().len(), 2);

    api.denied.lock().unwrap().clear();
    let changed = nudger.inner.changes.take().await;
    assert!(changed.contains(&kb), "and that it is well again");
    assert_eq!(nudger.refusal(&kb), None);
}
