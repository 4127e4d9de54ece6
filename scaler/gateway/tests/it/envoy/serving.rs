//! Requests through Envoy, by word of the picker.

use std::collections::BTreeMap;

use http_body_util::{BodyExt as _, Full};
use hyper::{Request, StatusCode};

use super::configuration::{Bodies, Settings};
use super::process::Envoy;
use super::program;
use crate::client::{Answer, ask, infer, send, whole};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

async fn envoy(
    program: &std::path::Path,
    gateway: &Gateway,
    instances: &[&Instance],
    bodies: Bodies,
) -> Envoy {
    let instances: Vec<_> = instances.iter().map(|instance| instance.address).collect();
    let settings = Settings {
        picker: gateway.picker,
        instances: &instances,
        bodies,
        fail_open: false,
    };
    Envoy::start(program, &settings).await
}

/// Text of a function with one small and one larger instance.
fn unequal(small: &Instance, large: &Instance) -> String {
    function("embed", "", &[small.address], 1)
        + &format!(
            "[[function.embed.instance]]\naddress = \"{}\"\nbatch = 2\nconcurrency = 3\nlatency = \"100ms\"\n",
            large.address
        )
}

async fn idle(gateway: &Gateway) {
    gateway
        .eventually(|loads| {
            let of = &loads["functions"][0];
            of["in_flight"] == 0 && of["waiting"] == 0
        })
        .await;
}

#[tokio::test]
async fn unequal_instances_get_requests_by_their_capacity() {
    let Some(program) = program() else { return };
    for bodies in [Bodies::Streamed, Bodies::Buffered] {
        let (small, large) = (
            Instance::start("small", Mode::Hold),
            Instance::start("large", Mode::Hold),
        );
        let gateway = Gateway::start(&unequal(&small, &large)).await;
        let envoy = envoy(&program, &gateway, &[&small, &large], bodies).await;
        let asked: Vec<_> = (0..10)
            .map(|_| tokio::spawn(ask(envoy.address, "embed")))
            .collect();
        gateway
            .eventually(|loads| {
                let of = &loads["functions"][0];
                of["in_flight"] == 7 && of["waiting"] == 3
            })
            .await;
        // A picked request arrives at its instance a moment later.
        while small.seen().len() + large.seen().len() < 7 {
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        assert_eq!(
            (small.seen().len(), large.seen().len()),
            (1, 6),
            "{bodies:?}"
        );
        small.open();
        large.open();
        let mut names: BTreeMap<String, usize> = BTreeMap::new();
        for answer in asked {
            let answer = answer.await.unwrap();
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
            *names.entry(answer.body).or_default() += 1;
        }
        assert_eq!(names.values().sum::<usize>(), 10);
        let most = (small.most(), large.most());
        assert!(most.0 == 1 && most.1 == 6, "{bodies:?}: {most:?}");
        // The prefix that names the function is cut off, and the body is whole.
        for seen in small.seen().iter().chain(&large.seen()) {
            assert_eq!(
                (seen.path.as_str(), &seen.body[..]),
                ("/v2/models/m/infer", &b"{}"[..])
            );
        }
        idle(&gateway).await;
    }
}

#[tokio::test]
async fn a_streamed_response_passes_part_by_part() {
    let Some(program) = program() else { return };
    let instance = Instance::start("one", Mode::Stream);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    let envoy = envoy(&program, &gateway, &[&instance], Bodies::Streamed).await;
    let response = send(envoy.address, infer("embed")).await.unwrap();
    let mut body = response.into_body();
    let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(&first[..], b"first");
    assert_eq!(
        gateway.loads().await["functions"][0]["in_flight"],
        1,
        "it has not ended"
    );
    instance.open();
    assert_eq!(&body.collect().await.unwrap().to_bytes()[..], b"second");
    idle(&gateway).await;
    let metrics = gateway.page("/metrics").await;
    assert!(metrics.contains("outcome=\"served\"} 1"), "{metrics}");
}

#[tokio::test]
async fn a_large_body_comes_whole() {
    let Some(program) = program() else { return };
    let instance = Instance::start("one", Mode::Answer);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    let envoy = envoy(&program, &gateway, &[&instance], Bodies::Streamed).await;
    let sent: Vec<u8> = (0..3_000_000_u32)
        .map(|at| at.to_le_bytes()[0] ^ 0x5a)
        .collect();
    let request = Request::post("/functions/embed/x").header("host", "gateway");
    let request = request.body(Full::new(sent.clone().into())).unwrap();
    let answer = whole(send(envoy.address, request).await.unwrap()).await;
    assert_eq!(
        (answer.status, answer.body.as_str()),
        (StatusCode::OK, "one")
    );
    assert!(instance.seen()[0].body == sent);
}

#[tokio::test]
async fn refusals_reach_the_client() {
    let Some(program) = program() else { return };
    let busy = Instance::start("busy", Mode::Hold);
    let gateway = Gateway::start(&function("embed", "queue = 0", &[busy.address], 1)).await;
    let envoy = envoy(&program, &gateway, &[&busy], Bodies::Streamed).await;
    let Answer { status, body, .. } = ask(envoy.address, "other").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{body}");
    assert!(
        body.starts_with("{\"error\":\"no function for /functions/other/"),
        "{body}"
    );
    let running = tokio::spawn(ask(envoy.address, "embed"));
    gateway
        .eventually(|loads| loads["functions"][0]["in_flight"] == 1)
        .await;
    let refused = ask(envoy.address, "embed").await;
    assert_eq!(
        refused.status,
        StatusCode::TOO_MANY_REQUESTS,
        "{}",
        refused.body
    );
    assert_eq!(refused.headers["retry-after"], "1");
    assert_eq!(refused.headers["content-type"], "application/json");
    busy.open();
    assert_eq!(running.await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_subset_and_the_clients_own_destination_do_not_lead_elsewhere() {
    let Some(program) = program() else { return };
    let (one, two) = (
        Instance::start("one", Mode::Answer),
        Instance::start("two", Mode::Answer),
    );
    let both = [one.address, two.address];
    let gateway = Gateway::start(&function("embed", "", &both, 4)).await;
    let envoy = envoy(&program, &gateway, &[&one, &two], Bodies::Streamed).await;
    for _ in 0..6 {
        let mut request = infer("embed");
        let headers = request.headers_mut();
        headers.insert("x-subset", two.address.to_string().parse().unwrap());
        let wish = one.address.to_string().parse().unwrap();
        headers.insert("x-gateway-destination-endpoint", wish);
        let answer = whole(send(envoy.address, request).await.unwrap()).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            (StatusCode::OK, "two")
        );
    }
    let mut request = infer("embed");
    request
        .headers_mut()
        .insert("x-subset", "127.0.0.1:1".parse().unwrap());
    let answer = whole(send(envoy.address, request).await.unwrap()).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test]
async fn the_instance_that_served_is_reported() {
    let Some(program) = program() else { return };
    let (known, picked) = (
        Instance::start("known", Mode::Answer),
        Instance::start("picked", Mode::Answer),
    );
    let gateway = Gateway::start(&function("embed", "", &[picked.address], 1)).await;
    // Envoy has another list of instances than the picker, as for a moment after a change.
    let envoy = envoy(&program, &gateway, &[&known], Bodies::Streamed).await;
    assert_eq!(ask(envoy.address, "embed").await.body, "known");
    idle(&gateway).await;
    let metrics = gateway.page("/metrics").await;
    let line = "tetris_gateway_picks_elsewhere_total{namespace=\"\",function=\"embed\"} 1";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn clients_that_leave_free_their_slot() {
    let Some(program) = program() else { return };
    let instance = Instance::start("one", Mode::Stream);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    for bodies in [Bodies::Streamed, Bodies::Buffered] {
        let envoy = envoy(&program, &gateway, &[&instance], bodies).await;
        let response = send(envoy.address, infer("embed")).await.unwrap();
        if bodies == Bodies::Streamed {
            let waiting = tokio::spawn(send(envoy.address, infer("embed")));
            gateway
                .eventually(|loads| loads["functions"][0]["waiting"] == 1)
                .await;
            waiting.abort();
            gateway
                .eventually(|loads| loads["functions"][0]["waiting"] == 0)
                .await;
            assert_eq!(gateway.loads().await["functions"][0]["in_flight"], 1);
        }
        drop(response);
        idle(&gateway).await;
    }
}

#[tokio::test]
async fn an_instance_that_breaks_off_counts_as_failed() {
    let Some(program) = program() else { return };
    let instance = Instance::start("broken", Mode::Break);
    let gateway = Gateway::start(&function("embed", "", &[instance.address], 1)).await;
    let envoy = envoy(&program, &gateway, &[&instance], Bodies::Streamed).await;
    let answer = ask(envoy.address, "embed").await;
    assert_eq!(
        answer.status,
        StatusCode::SERVICE_UNAVAILABLE,
        "{}",
        answer.body
    );
    idle(&gateway).await;
    let metrics = gateway.page("/metrics").await;
    assert!(metrics.contains("outcome=\"fault\"} 1"), "{metrics}");
}
