//! Executors that make the gateway hold as much as they can.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::{Response, StatusCode};
use serde_json::{Value, json};

use super::executor::Executor;
use super::node::Node;
use super::serving::rules;
use super::{ask, available, pool, until_metric};
use crate::gateway::Gateway;
use crate::port::Port;
use crate::server::Server;
use tetris_test_support::heap;

const UNUSABLE: &str = "tetris_gateway_gpu_executors_unusable{pool=\"main\"}";
const REFUSED: &str = "tetris_gateway_gpu_refused_pages_total{pool=\"main\"}";

/// A server whose pages a test makes, each from the number of pages before it.
struct Teller {
    server: Server,
    pages: Arc<AtomicUsize>,
}

impl Teller {
    fn start(page: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        let pages = Arc::new(AtomicUsize::new(0));
        let (counted, page) = (Arc::clone(&pages), Arc::new(page));
        let server = Server::start(Port::take(), move |_| {
            let (counted, page) = (Arc::clone(&counted), Arc::clone(&page));
            async move {
                let text = page(counted.fetch_add(1, Ordering::SeqCst));
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(text))))
            }
        });
        Self { server, pages }
    }

    fn pool(&self, others: &[&Executor]) -> String {
        let text = pool(others, "", &[("a", "")]);
        let begin = format!("executors = [\"{}\", ", self.server.address());
        text.replacen("executors = [", &begin, 1)
    }

    async fn until(&self, pages: usize) {
        while self.pages.load(Ordering::SeqCst) < pages {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A page on which all names are new in each `round`.
fn page_of(round: usize) -> Value {
    let name = |kind: &str, number: usize| format!("{kind} {round} {number} {}", "x".repeat(60));
    let long = |kind: &str| format!("{kind} {round} {}", "x".repeat(230));
    let link = |number| json!({"to": name("link", number), "bytes_per_second": 7});
    let part = |number| json!({"id": name("part", number), "bytes": 1});
    let parts: Vec<Value> = (0..100).map(part).collect();
    let model = |name: String| json!({"name": name, "model": long("content"), "state": "resident", "parts": parts});
    let mut models: Vec<Value> = (0..4).map(|number| model(name("model", number))).collect();
    models.push(model("a".to_owned()));
    json!({
        "uuid": long("uuid"), "node": long("node"), "switch": long("switch"), "capacity_bytes": 1_u64 << 40,
        "bytes_per_second": 10_000_000_000_u64, "links": (0..256).map(link).collect::<Vec<_>>(), "models": models,
    })
}

/// The gateway's pools are on the thread of the test, whose heap counts.
#[tokio::test]
async fn an_executor_that_changes_all_names_does_not_grow_the_gateway() {
    const WARM: usize = 20;
    const PAGES: usize = 100;
    let teller = Teller::start(|round| page_of(round).to_string());
    let gateway = Gateway::start(&teller.pool(&[])).await;
    teller.until(WARM).await;
    let before = heap::held();
    teller.until(WARM + PAGES).await;
    let grown = heap::held() - before;
    // One name of 250 bytes for each page would be more, and so is one page.
    assert!(grown < 16 << 10, "{grown} bytes more after {PAGES} pages");
    gateway.page("/metrics").await;
}

#[tokio::test]
async fn an_executor_above_a_limit_gets_nothing_until_its_page_is_within_it_and_others_go_on() {
    let models = |count: usize| {
        let model = |number| json!({"name": format!("m{number}"), "model": "c", "state": "absent", "parts": []});
        let mut page = page_of(0);
        page["models"] = (0..count).map(model).collect();
        page.to_string()
    };
    for (bad, good) in [
        (models(4_097), models(4_096)),
        (" ".repeat(4 << 20), models(1)),
        ("{".to_owned(), models(2)),
    ] {
        let node = Node::start(rules(1, 500, &["a"]));
        let honest = Executor::start(&node, 0);
        let told = Arc::new(Mutex::new(bad));
        let page = Arc::clone(&told);
        let teller = Teller::start(move |_| page.lock().unwrap().clone());
        let gateway = Gateway::start(&teller.pool(&[&honest])).await;
        until_metric(&gateway, UNUSABLE, 1).await;
        available(&gateway, 1).await;
        assert_eq!(ask(&gateway, "a").await.status, StatusCode::OK);
        assert!(super::metric(&gateway, REFUSED).await > 0);
        *told.lock().unwrap() = good;
        available(&gateway, 2).await;
        until_metric(&gateway, UNUSABLE, 0).await;
    }
}
