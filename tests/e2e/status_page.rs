//! The status page of the running operator, in a browser.

use anyhow::ensure;
use hedgerow_tests::{Browser, Look, eventually, http_client};

use crate::policy::policy;
use crate::scene::{SOON, Scene};

#[tokio::test]
async fn a_person_sees_the_policies_their_delays_and_the_switch() {
    let scene = Scene::with_operator("status-page", |operator| operator.with_status_page()).await;
    scene.apply(&policy("kb")).await;
    scene.reason("Tuned").await;
    let url = scene.operator.status_page();
    let http = http_client(SOON).unwrap();
    let shows = async |word: &str| {
        eventually(&format!("the page shows {word}"), SOON, async || {
            let page = http.get(&url).send().await?.error_for_status()?.text().await?;
            ensure!(page.contains(word), "it is {page}");
            Ok(())
        })
        .await
        .unwrap();
    };
    shows("<path").await;
    scene.service.queue(80.0);
    scene.reason("Saturated").await;
    shows("saturated").await;
    shows("class=\"off\"").await;

    let Some(browser) = Browser::find() else { return };
    let content = browser.content(&url).unwrap();
    let policy = format!("{}/kb", scene.namespace.name());
    for word in [policy.as_str(), "shard-read", "Saturated", "queue", "leads"] {
        assert!(content.contains(word), "{word} is not in {content}");
    }
    let look = Look {
        width: 1000,
        height: 900,
        dark: false,
    };
    let picture = browser.picture("status-page-live", &url, look).unwrap();
    println!("screenshot: {}", picture.display());
}
