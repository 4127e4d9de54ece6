//! Engines that wake for requests, and sleep to make room.

use hyper::StatusCode;
use serde_json::json;

use super::engine::{ASLEEP, AWAKE, Answers, Behavior, Engine, Obeys};
use super::{ask, body, completion, engines, get, group, one_of, state, waiting};
use crate::gateway::Gateway;

#[tokio::test]
async fn the_model_of_a_request_chooses_the_engine_and_the_idle_one_makes_room() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    let gateway = one_of("residence = 0", &[("a", &a), ("b", &b)]).await;
    for (model, expected) in [("A", "a"), ("B", "b"), ("B", "b"), ("A", "a")] {
        let answer = ask(&gateway, completion(model)).await;
        let expected = format!("{expected} /v1/completions");
        assert_eq!((answer.status, answer.body), (StatusCode::OK, expected));
        assert!(a.is_asleep() || b.is_asleep());
    }
    assert_eq!(a.orders(), ["/sleep?level=1", "/wake_up"]);
    assert_eq!(b.orders(), ["/wake_up", "/sleep?level=1"]);
}

#[tokio::test]
async fn several_requests_for_a_sleeping_engine_cause_one_wake() {
    let gated = Behavior {
        wakes: Obeys::Gated,
        ..ASLEEP
    };
    let b = Engine::start("b", gated);
    let gateway = one_of("", &[("b", &b)]).await;
    let asked = futures::future::join_all((0..5).map(|_| ask(&gateway, completion("B"))));
    let opened = async {
        waiting(&gateway, 5).await;
        b.open_orders();
    };
    let (answers, ()) = tokio::join!(asked, opened);
    assert!(answers.iter().all(|answer| answer.status == StatusCode::OK));
    assert_eq!(b.orders(), ["/wake_up"]);
}

#[tokio::test]
async fn engines_that_fit_are_woken_at_once() {
    let gated = Behavior {
        wakes: Obeys::Gated,
        ..ASLEEP
    };
    let all = [
        Engine::start("a", gated),
        Engine::start("b", gated),
        Engine::start("c", gated),
    ];
    let text = group(
        "awake = 2\nturn = 0\nresidence = 0",
        &[
            ("a", all[0].address),
            ("b", all[1].address),
            ("c", all[2].address),
        ],
    );
    let gateway = Gateway::start(&text).await;
    let asked =
        futures::future::join_all(["A", "B", "C"].map(|model| ask(&gateway, completion(model))));
    let opened = async {
        waiting(&gateway, 3).await;
        while all.iter().filter(|of| !of.orders().is_empty()).count() < 2 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        assert_eq!(engines(&gateway).await["groups"][0]["used"], 2);
        all.iter().for_each(Engine::open_orders);
    };
    let (answers, ()) = tokio::join!(asked, opened);
    assert!(answers.iter().all(|answer| answer.status == StatusCode::OK));
    assert_eq!(all.iter().filter(|of| of.is_asleep()).count(), 1);
}

#[tokio::test]
async fn a_restart_of_the_gateway_moves_no_engine() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    for _ in 0..2 {
        let gateway = one_of("", &[("a", &a), ("b", &b)]).await;
        state(&gateway, "a", "awake").await;
        state(&gateway, "b", "asleep").await;
        assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
    }
    assert!(a.orders().is_empty() && b.orders().is_empty());
}

#[tokio::test]
async fn a_busy_engine_stays_for_its_residence_and_a_waiting_request_gets_its_turn() {
    let gated = Behavior {
        answers: Answers::Gated,
        ..AWAKE
    };
    let (a, b) = (Engine::start("a", gated), Engine::start("b", ASLEEP));
    let gateway = one_of("turn = \"200ms\"", &[("a", &a), ("b", &b)]).await;
    let steps = async {
        a.served(1).await;
        let second = ask(&gateway, completion("B"));
        let drained = async {
            state(&gateway, "a", "draining").await;
            // Its later requests wait for the other engine's residence.
            assert!(a.orders().is_empty());
            a.open_answers();
        };
        tokio::join!(second, drained).0
    };
    let (first, second) = tokio::join!(ask(&gateway, completion("A")), steps);
    assert_eq!(
        (first.status, second.status),
        (StatusCode::OK, StatusCode::OK)
    );
    assert_eq!((a.orders().len(), b.orders().len()), (1, 1));
}

#[tokio::test]
async fn an_idle_engine_sleeps_after_its_time() {
    let a = Engine::start("a", AWAKE);
    let gateway = one_of("idle = \"300ms\"\nresidence = 0", &[("a", &a)]).await;
    assert_eq!(ask(&gateway, completion("A")).await.status, StatusCode::OK);
    state(&gateway, "a", "asleep").await;
    assert_eq!(a.orders(), ["/sleep?level=1"]);
}

#[tokio::test]
async fn a_wake_after_level_two_reads_the_weights_again() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    let fields = "sleep_level = 2\nresidence = 0";
    let gateway = one_of(fields, &[("a", &a), ("b", &b)]).await;
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    assert_eq!(a.orders(), ["/sleep?level=2"]);
    let wake = [
        "/wake_up?tags=weights",
        "/collective_rpc {\"method\": \"reload_weights\"}",
        "/wake_up?tags=kv_cache",
    ];
    assert_eq!(b.orders(), wake);
}

#[tokio::test]
async fn an_engine_moved_by_others_is_found_as_it_is() {
    let b = Engine::start("b", ASLEEP);
    let gateway = one_of("", &[("b", &b)]).await;
    state(&gateway, "b", "asleep").await;
    let by_hand = body("/wake_up", "");
    crate::client::send(b.address, by_hand).await.unwrap();
    state(&gateway, "b", "awake").await;
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    assert_eq!(b.orders(), ["/wake_up"]);
}

#[tokio::test]
async fn the_list_of_models_has_those_of_all_engines() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    let text = group("awake = 1", &[("a", a.address), ("b", b.address)]);
    let text = text.replace("[\"B\"]", "[\"org/B\", \"b\"]\nadapters = [\"b-sql\"]");
    let gateway = Gateway::start(&text).await;
    let list = get(&gateway, "/v1/models").await;
    let list: serde_json::Value = serde_json::from_str(&list.body).unwrap();
    let models: Vec<_> = list["data"].as_array().unwrap().iter().collect();
    let ids: Vec<_> = models.iter().map(|model| &model["id"]).collect();
    assert_eq!(ids, ["A", "org/B", "b", "b-sql"]);
    assert_eq!(
        (&list["object"], &models[3]["parent"]),
        (&json!("list"), &json!("org/B"))
    );
    for path in ["/v1/models/org/B", "/v1/models/b-sql"] {
        assert_eq!(get(&gateway, path).await.status, StatusCode::OK, "{path}");
    }
    let unknown = get(&gateway, "/v1/models/other").await;
    assert_eq!(unknown.status, StatusCode::NOT_FOUND);
    assert!(b.orders().is_empty());
    for model in ["b", "b-sql", "org/B"] {
        assert_eq!(
            ask(&gateway, completion(model)).await.status,
            StatusCode::OK
        );
    }
}

#[tokio::test]
async fn bodies_that_are_not_json_reach_an_engine_by_its_path() {
    let b = Engine::start("b", ASLEEP);
    let gateway = one_of("", &[("b", &b)]).await;
    let path = "/v1/audio/transcriptions";
    let without = ask(&gateway, body(path, "--boundary")).await;
    assert_eq!(without.status, StatusCode::BAD_REQUEST);
    assert!(
        without.body.contains("use /functions/ENGINE/"),
        "{}",
        without.body
    );
    let by_path = ask(&gateway, body(&format!("/functions/b{path}"), "--boundary")).await;
    assert_eq!(
        (by_path.status, by_path.body),
        (StatusCode::OK, format!("b {path}"))
    );
}

#[tokio::test]
async fn pages_tell_states_orders_and_waiting_requests() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    let text = "memory = \"10GiB\"\nresidence = 0";
    let text = group(text, &[("a", a.address), ("b", b.address)]).replace(
        "models =",
        "memory = \"8GiB\"\nmemory_asleep = \"1GiB\"\nmodels =",
    );
    let gateway = Gateway::start(&text).await;
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    let page = engines(&gateway).await;
    let group = &page["groups"][0];
    assert_eq!(
        (&page["version"], &group["group"]),
        (&json!(1), &json!("gpu"))
    );
    assert_eq!(
        (&group["unit"], &group["used"]),
        (&json!("bytes"), &json!(9_u64 << 30))
    );
    assert_eq!(group["engines"][1]["state"], "awake");
    let metrics = gateway.page("/metrics").await;
    for line in [
        "tetris_gateway_engine_state{group=\"gpu\",engine=\"a\",state=\"asleep\"} 1",
        "tetris_gateway_engine_orders_total{group=\"gpu\",engine=\"b\",order=\"wake\",outcome=\"done\"} 1",
        "tetris_gateway_engine_order_seconds_count{group=\"gpu\",engine=\"a\",order=\"sleep\"} 1",
        "tetris_gateway_engine_waiting{group=\"gpu\"} 0",
        "tetris_gateway_engine_cut_total{group=\"gpu\"} 0",
        "tetris_gateway_requests_total{namespace=\"\",function=\"b\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}");
    }
}

#[tokio::test]
async fn a_group_stays_while_the_file_changes_around_it_and_goes_with_its_section() {
    let (a, b) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    let text = group(
        "awake = 1\nresidence = 0",
        &[("a", a.address), ("b", b.address)],
    );
    let gateway = Gateway::start(&text).await;
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    let more = text + &crate::gateway::function("embed", "", &[], 1);
    let has = |count| {
        move |loads: &serde_json::Value| loads["functions"].as_array().unwrap().len() == count
    };
    gateway.configure(&more, has(3)).await;
    assert_eq!(ask(&gateway, completion("B")).await.status, StatusCode::OK);
    assert_eq!((a.orders().len(), b.orders().len()), (1, 1));
    gateway.configure("", has(0)).await;
    assert_eq!(
        ask(&gateway, completion("B")).await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(
        get(&gateway, "/v1/models").await.status,
        StatusCode::NOT_FOUND
    );
}
