//! A picker that is killed.

use std::time::Duration;

use hyper::StatusCode;

use super::configuration::{Bodies, Settings};
use super::process::{Envoy, Process};
use super::program;
use crate::client::ask;
use crate::gateway::function;
use crate::instance::{Instance, Mode};

#[tokio::test]
async fn without_a_picker_requests_fail_until_it_is_back() {
    let Some(program) = program() else { return };
    let instance = Instance::start("one", Mode::Answer);
    let mut gateway = Process::start(&function("embed", "", &[instance.address], 1)).await;
    let settings = Settings {
        picker: gateway.picker,
        instances: &[instance.address],
        bodies: Bodies::Streamed,
        fail_open: false,
    };
    let envoy = Envoy::start(&program, &settings).await;
    assert_eq!(ask(envoy.address, "embed").await.status, StatusCode::OK);
    gateway.kill().await;
    for _ in 0..3 {
        let answer = ask(envoy.address, "embed").await;
        assert!(answer.status.is_server_error(), "{}", answer.status);
    }
    assert_eq!(instance.seen().len(), 1, "none went on unpicked");
    gateway.again().await;
    while ask(envoy.address, "embed").await.status != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn without_a_picker_that_fails_open_requests_are_served() {
    let Some(program) = program() else { return };
    for bodies in [Bodies::Streamed, Bodies::Buffered] {
        let (one, two) = (
            Instance::start("one", Mode::Answer),
            Instance::start("two", Mode::Answer),
        );
        let both = [one.address, two.address];
        let text = function("embed", "hosts = [\"gateway\"]", &both, 1);
        let mut gateway = Process::start(&text).await;
        let settings = Settings {
            picker: gateway.picker,
            instances: &both,
            bodies,
            fail_open: true,
        };
        let envoy = Envoy::start(&program, &settings).await;
        assert_eq!(ask(envoy.address, "embed").await.status, StatusCode::OK);
        gateway.kill().await;
        let mut answer = ask(envoy.address, "embed").await;
        // A part of a body that Envoy has sent to the picker is lost with it: such a request fails
        // until Envoy knows that the picker is gone.
        while bodies == Bodies::Streamed && answer.status != StatusCode::OK {
            assert!(answer.status.is_server_error(), "{}", answer.status);
            tokio::time::sleep(Duration::from_millis(10)).await;
            answer = ask(envoy.address, "embed").await;
        }
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        let before = (one.seen().len(), two.seen().len());
        for _ in 0..6 {
            let answer = ask(envoy.address, "embed").await;
            assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        }
        let (one, two) = (one.seen().len() - before.0, two.seen().len() - before.1);
        assert!(
            one + two == 6 && one >= 2 && two >= 2,
            "by turns: {one} and {two}"
        );
    }
}
