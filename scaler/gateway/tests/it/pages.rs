//! Pages of the documents written from the program.

use std::process::Command;

use hyper::StatusCode;
use tetris_gateway::config::Config;
use tetris_gateway::picker::wire::BodyMode;

use crate::client::{ask, send, whole};
use crate::engines::engine::{ASLEEP, AWAKE, Engine};
use crate::engines::{completion, group};
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};
use crate::picker::data_plane::{Stream, head, response, served};
use crate::port::Port;
use tetris_test_support::{command_page, exit_codes_page, metrics_page};

#[tokio::test]
async fn the_page_of_metrics_has_every_metric() {
    let (gone, here) = (Port::take(), Instance::start("here", Mode::Answer));
    let text = function("embed", "", &[gone.address, here.address], 1)
        + &function("none", "queue = 0", &[], 1);
    let text = text + "[gpu_pool.main]\nexecutors = []\n";
    let (awake, asleep) = (Engine::start("a", AWAKE), Engine::start("b", ASLEEP));
    let engines = [("a", awake.address), ("b", asleep.address)];
    let gateway = Gateway::start(&(text + &group("awake = 1\nresidence = 0", &engines))).await;
    let woken = send(gateway.address, completion("B")).await.unwrap();
    assert_eq!(whole(woken).await.status, StatusCode::OK);
    for _ in 0..2 {
        assert_eq!(ask(gateway.address, "embed").await.status, StatusCode::OK);
    }
    let refused = ask(gateway.address, "none").await.status;
    assert_eq!(refused, StatusCode::TOO_MANY_REQUESTS);
    // A pick whose request was served by another instance, and a refused one.
    let open = || Stream::open(gateway.picker, BodyMode::None, BodyMode::None);
    let mut stream = open().await;
    stream.picked("/functions/embed/").await;
    let elsewhere = served(([127, 0, 0, 1], 1).into());
    stream
        .send_with(response("200", true), Some(elsewhere))
        .await;
    stream.answer().await;
    open()
        .await
        .refused(head("/functions/none/", true), None)
        .await;
    metrics_page::check("tetris-gateway", &gateway.page("/metrics").await);
}

#[tokio::test]
async fn a_gateway_without_functions_tells_its_version() {
    let gateway = Gateway::start("").await;
    let page = gateway.page("/metrics").await;
    let version = env!("CARGO_PKG_VERSION");
    let sample = format!("tetris_gateway_build_info{{version=\"{version}\"}} 1\n");
    assert!(page.contains(&sample), "{sample} in {page}");
}

#[test]
fn shells_complete_subcommands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-gateway"));
        let script = command.args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        for word in ["check", "picker-listen"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn the_page_of_exit_codes_has_those_of_the_help() {
    let help = Command::new(env!("CARGO_BIN_EXE_tetris-gateway"))
        .arg("--help")
        .output()
        .unwrap();
    exit_codes_page::check("tetris-gateway", &String::from_utf8(help.stdout).unwrap());
}

#[test]
fn the_page_of_the_command_has_its_help() {
    command_page::check("tetris-gateway", |words| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-gateway"));
        let output = command.env_clear().args(words).arg("--help").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    });
}

#[test]
fn manual_pages_are_written_for_the_command_and_each_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-gateway"));
    let output = command.arg("man").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for page in ["tetris-gateway.1", "tetris-gateway-run.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn the_examples_are_valid_files() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/gateway.toml");
    let config = Config::read(path.as_ref()).unwrap();
    assert_eq!(config.function["embed"].instance.len(), 2);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/gpu.toml");
    let config = Config::read(path.as_ref()).unwrap();
    assert_eq!(config.gpu_pool["main"].executors.len(), 2);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/engines.toml");
    let config = Config::read(path.as_ref()).unwrap();
    assert_eq!(config.engine_group["gpu"].engine.len(), 3);
}
