//! Engines that fail, and clients that leave.

use std::time::Duration;

use http_body_util::BodyExt as _;
use hyper::StatusCode;

use super::engine::{ASLEEP, AWAKE, Answers, Behavior, Engine, Obeys};
use super::{ask, completion, engines, group, one_of, state, waiting};
use crate::client::send;
use crate::gateway::Gateway;
use crate::port::Port;

#[tokio::test]
async fn a_refused_wake_is_an_error_of_its_clients_and_disturbs_no_others() {
    let refuses = Behavior {
        wakes: Obeys::Refuses,
        ..ASLEEP
    };
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", refuses));
    let text = group("awake = 2", &[("a", a.address), ("b", b.address)]);
    let gateway = Gateway::start(&text).await;
    state(&gateway, "b", "asleep").await;
    let refused = ask(&gateway, completion("B")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.body.contains("wake-failed"), "{}", refused.body);
    assert!(refused.headers.contains_key("retry-after"));
    // Until the next attempt is due, requests do not disturb the engine.
    assert_eq!(
        ask(&gateway, completion("B")).await.status,
        StatusCode::SERVICE_UNAVAILABLE
    );
    assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
    assert_eq!(b.orders(), ["/wake_up"]);
    assert!(b.is_asleep() && a.orders().is_empty());
}

#[tokio::test]
async fn an_engine_killed_while_asleep_is_named_and_serves_once_it_is_back() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    let gateway = one_of("residence = 0", &[("a", &a), ("b", &b)]).await;
    let port = b.kill().await;
    state(&gateway, "b", "gone").await;
    let refused = ask(&gateway, completion("B")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.body.contains("unreachable"), "{}", refused.body);
    assert!(a.orders().is_empty());
    // Engines start awake, whatever room there is: the idle one makes it.
    let b = Engine::on(port, "b", AWAKE);
    state(&gateway, "a", "asleep").await;
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    assert!(b.orders().is_empty());
}

#[tokio::test]
async fn an_engine_killed_while_it_wakes_leaves_the_room_to_others() {
    let gated = Behavior {
        wakes: Obeys::Gated,
        ..ASLEEP
    };
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", gated));
    let gateway = one_of("residence = 0", &[("a", &a), ("b", &b)]).await;
    let killed = async {
        b.ordered(1).await;
        b.kill().await
    };
    let (answer, _port) = tokio::join!(ask(&gateway, completion("B")), killed);
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
    assert_eq!(a.orders(), ["/sleep?level=1", "/wake_up"]);
}

#[tokio::test]
async fn an_engine_without_the_paths_is_named_with_the_remedy() {
    let without = Behavior {
        has_paths: false,
        ..AWAKE
    };
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", without));
    let text = group("awake = 1", &[("a", a.address), ("b", b.address)]);
    let gateway = Gateway::start(&text).await;
    state(&gateway, "b", "no-paths").await;
    state(&gateway, "a", "awake").await;
    let refused = ask(&gateway, completion("B")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    let says = "start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1";
    assert!(refused.body.contains(says), "{}", refused.body);
    assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
    assert!(a.orders().is_empty());
}

#[tokio::test]
async fn an_engine_that_never_answers_its_order_to_sleep_stays_and_another_makes_room() {
    let never = Behavior {
        sleeps: Obeys::Never,
        ..AWAKE
    };
    let all = [
        Engine::start("a", never),
        Engine::start("b", AWAKE),
        Engine::start("c", ASLEEP),
    ];
    let fields = "awake = 2\nresidence = 0\nsleep = \"200ms\"";
    let places = [
        ("a", all[0].address),
        ("b", all[1].address),
        ("c", all[2].address),
    ];
    let gateway = Gateway::start(&group(fields, &places)).await;
    // The last one used stays if it can.
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    assert_eq!(ask(&gateway, completion("C")).await.status, StatusCode::OK);
    assert_eq!(all[0].orders(), ["/sleep?level=1"]);
    assert_eq!(all[1].orders(), ["/sleep?level=1"]);
    assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn a_wake_without_an_answer_ends_in_its_time() {
    let never = Behavior {
        wakes: Obeys::Never,
        ..ASLEEP
    };
    let b = Engine::start("b", never);
    let gateway = one_of("wake = \"200ms\"", &[("b", &b)]).await;
    let refused = ask(&gateway, completion("B")).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.body.contains("wake-failed"), "{}", refused.body);
}

#[tokio::test]
async fn a_silent_engine_takes_only_the_time_of_its_own_requests() {
    let silent = Behavior {
        answers_questions: false,
        ..AWAKE
    };
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", silent));
    let text = group(
        "awake = 2\nwait = \"10s\"",
        &[("a", a.address), ("b", b.address)],
    );
    let gateway = Gateway::start(&text).await;
    let (own, others) = tokio::join!(ask(&gateway, completion("B")), async {
        ask(&gateway, completion("A")).await
    });
    assert_eq!(others.status, StatusCode::OK);
    assert_eq!(own.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(own.body.contains("unreachable"), "{}", own.body);
}

#[tokio::test]
async fn a_client_that_leaves_frees_its_place_and_wakes_nothing() {
    let gated = Behavior {
        answers: Answers::Gated,
        ..AWAKE
    };
    let (a, b) = (Engine::start("a", gated), Engine::start("b", ASLEEP));
    let fields = "residence = 0\nturn = \"10s\"\nqueue = 1";
    let gateway = one_of(fields, &[("a", &a), ("b", &b)]).await;
    let steps = async {
        a.served(1).await;
        let address = gateway.address;
        let left = tokio::spawn(async move { send(address, completion("B")).await });
        waiting(&gateway, 1).await;
        let full = ask(&gateway, completion("B")).await;
        assert_eq!(full.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(full.headers.contains_key("retry-after"));
        left.abort();
        waiting(&gateway, 0).await;
        a.open_answers();
    };
    let (first, ()) = tokio::join!(ask(&gateway, completion("A")), steps);
    assert_eq!(first.status, StatusCode::OK);
    assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
    assert!(a.orders().is_empty() && b.orders().is_empty());
}

#[tokio::test]
async fn a_stream_without_an_end_is_cut_off_and_the_other_engine_serves() {
    let endless = Behavior {
        answers: Answers::Endless,
        ..AWAKE
    };
    let (a, b) = (Engine::start("a", endless), Engine::start("b", ASLEEP));
    let fields = "residence = 0\nturn = 0\ndrain = \"200ms\"";
    let gateway = one_of(fields, &[("a", &a), ("b", &b)]).await;
    let stream = send(gateway.address, completion("A")).await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    let (rest, second) = tokio::join!(stream.into_body().collect(), ask(&gateway, completion("B")));
    assert!(rest.is_err(), "a broken stream looks whole");
    assert_eq!(second.status, StatusCode::OK);
    assert_eq!(a.orders(), ["/sleep?level=1"]);
    let metrics = gateway.page("/metrics").await;
    assert!(metrics.contains("tetris_gateway_engine_cut_total{group=\"gpu\"} 1"));
}

#[tokio::test]
async fn a_client_that_reads_nothing_of_its_stream_keeps_no_engine_awake() {
    let floods = Behavior {
        answers: Answers::Flood,
        ..AWAKE
    };
    let (a, b) = (Engine::start("a", floods), Engine::start("b", ASLEEP));
    let fields = "residence = 0\nturn = 0\ndrain = \"100ms\"";
    let gateway = one_of(fields, &[("a", &a), ("b", &b)]).await;
    let _unread = send(gateway.address, completion("A")).await.unwrap();
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    assert_eq!(a.orders(), ["/sleep?level=1"]);
}

#[tokio::test]
async fn a_request_without_an_answer_is_cut_off_with_an_error() {
    let gated = Behavior {
        answers: Answers::Gated,
        ..AWAKE
    };
    let (a, b) = (Engine::start("a", gated), Engine::start("b", ASLEEP));
    let fields = "residence = 0\nturn = 0\ndrain = \"100ms\"";
    let gateway = one_of(fields, &[("a", &a), ("b", &b)]).await;
    let second = async {
        a.served(1).await;
        ask(&gateway, completion("B")).await
    };
    let (first, second) = tokio::join!(ask(&gateway, completion("A")), second);
    assert_eq!(first.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(first.body.contains("\"cut\""), "{}", first.body);
    assert_eq!(second.status, StatusCode::OK);
}

#[tokio::test]
async fn a_request_waits_no_longer_than_it_may() {
    let gated = Behavior {
        wakes: Obeys::Gated,
        ..ASLEEP
    };
    let b = Engine::start("b", gated);
    let gateway = one_of("wait = \"200ms\"", &[("b", &b)]).await;
    let expired = ask(&gateway, completion("B")).await;
    assert_eq!(expired.status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(expired.body.contains("not-awake"), "{}", expired.body);
    assert_eq!(engines(&gateway).await["groups"][0]["waiting"], 0);
    b.open_orders();
    state(&gateway, "b", "awake").await;
}

#[tokio::test]
async fn a_gateway_without_its_engines_serves_them_once_they_are_there() {
    let port = Port::take();
    let gateway = Gateway::start(&group("awake = 1", &[("b", port.address)])).await;
    state(&gateway, "b", "gone").await;
    let b = Engine::on(port, "b", ASLEEP);
    state(&gateway, "b", "asleep").await;
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    assert_eq!(b.orders(), ["/wake_up"]);
    tokio::time::sleep(Duration::ZERO).await;
}
