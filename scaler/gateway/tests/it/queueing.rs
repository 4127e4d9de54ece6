//! Requests that wait, and those that are refused.

use std::collections::BTreeMap;

use hyper::StatusCode;

use crate::client::{ask, infer, send, whole};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

#[tokio::test]
async fn instances_get_requests_by_their_capacity_and_never_more_than_that() {
    let (small, large) = (
        Instance::start("small", Mode::Hold),
        Instance::start("large", Mode::Hold),
    );
    let text = function("embed", "", &[small.address], 1)
        + &format!(
            "[[function.embed.instance]]\naddress = \"{}\"\nbatch = 2\nconcurrency = 3\nlatency = \"100ms\"\n",
            large.address
        );
    let gateway = Gateway::start(&text).await;
    let asked: Vec<_> = (0..10)
        .map(|_| tokio::spawn(ask(gateway.address, "embed")))
        .collect();
    gateway
        .eventually(|loads| {
            loads["functions"][0]["in_flight"] == 7 && loads["functions"][0]["waiting"] == 3
        })
        .await;
    small.open();
    large.open();
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for answer in asked {
        let answer = answer.await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        *names.entry(answer.body).or_default() += 1;
    }
    assert_eq!(names.values().sum::<usize>(), 10);
    assert!(
        small.most() == 1 && large.most() <= 6,
        "{} and {}",
        small.most(),
        large.most()
    );
}

#[tokio::test]
async fn a_function_without_instances_holds_its_requests_for_the_first_one() {
    let gateway = Gateway::start(&function("embed", "", &[], 1)).await;
    let waiting = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    let instance = Instance::start("late", Mode::Answer);
    let text = function("embed", "", &[instance.address], 1);
    gateway
        .configure(&text, |loads| {
            loads["functions"][0]["instances"][0]["pod"] == instance.address.to_string()
        })
        .await;
    assert_eq!(waiting.await.unwrap().body, "late");
}

#[tokio::test]
async fn a_full_queue_answers_429_and_a_wait_that_ends_503_with_the_time_to_try_again() {
    let instance = Instance::start("busy", Mode::Hold);
    let gateway = Gateway::start(&function("embed", "queue = 1", &[instance.address], 1)).await;
    let running = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    let mut short = infer("embed");
    short
        .headers_mut()
        .insert("tetris-wait-ms", "300".parse().unwrap());
    let waiting =
        tokio::spawn(async move { whole(send(gateway.address, short).await.unwrap()).await });
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    let refused = ask(gateway.address, "embed").await;
    assert_eq!(
        (refused.status, &refused.headers["retry-after"]),
        (StatusCode::TOO_MANY_REQUESTS, &"1".parse().unwrap())
    );
    assert!(
        refused.body.contains("function embed: 1 requests wait"),
        "{}",
        refused.body
    );
    let expired = waiting.await.unwrap();
    assert_eq!(
        (expired.status, &expired.headers["retry-after"]),
        (StatusCode::SERVICE_UNAVAILABLE, &"1".parse().unwrap())
    );
    instance.open();
    assert_eq!(running.await.unwrap().status, StatusCode::OK);
    let metrics = gateway.page("/metrics").await;
    for reason in ["full", "expired"] {
        assert!(
            metrics.contains(&format!("reason=\"{reason}\"}} 1")),
            "{metrics}"
        );
    }
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place() {
    let instance = Instance::start("busy", Mode::Hold);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    let first = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    let second = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 1)
        .await;
    second.abort();
    gateway
        .eventually(|loads| loads["functions"][0]["waiting"] == 0)
        .await;
    first.abort();
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 0)
        .await;
}

#[tokio::test]
async fn a_draining_instance_ends_its_requests_and_gets_no_more() {
    let (old, new) = (
        Instance::start("old", Mode::Hold),
        Instance::start("new", Mode::Answer),
    );
    let both = function("embed", "", &[old.address, new.address], 2);
    let gateway = Gateway::start(&both).await;
    let before = tokio::spawn(ask(gateway.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    // The page shows no draining, so the metrics are asked.
    let address = format!("address = \"{}\"", old.address);
    let drained = both.replace(&address, &format!("{address}\ndrain = true"));
    gateway.configure(&drained, |_| true).await;
    while !gateway
        .page("/metrics")
        .await
        .contains("state=\"draining\"} 1")
    {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    for _ in 0..10 {
        assert_eq!(ask(gateway.address, "embed").await.body, "new");
    }
    old.open();
    assert_eq!(before.await.unwrap().body, "old");
}
