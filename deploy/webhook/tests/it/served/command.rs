//! The command itself, as a process.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::StatusCode;
use clap::Parser as _;
use serde_json::{Value, json};
use tetris_webhook::cli::{self, Cli};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::served::api::Api;
use crate::served::client::{connect, plain};
use crate::served::https::review;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-webhook"));
    for name in ["TETRIS_LOG", "RUST_LOG", "POD_NAMESPACE"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn the_page_of_exit_codes_has_every_code() {
    let help = command().arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    tetris_test_support::exit_codes_page::check("tetris-webhook", &help);
}

#[test]
fn manual_pages_are_written_for_the_command_and_each_subcommand() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-webhook"));
    let output = command.arg("man").arg(folder.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    for page in ["tetris-webhook.1", "tetris-webhook-patch.1"] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect(page);
        assert!(text.contains(".SH NAME"), "{page}");
    }
}

#[test]
fn shells_complete_subcommands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tetris-webhook"));
        let script = command.args(["completions", shell]).output().unwrap();
        let script = String::from_utf8(script.stdout).unwrap();
        for word in ["patch", "labeled-namespace"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
}

#[test]
fn the_page_of_the_command_has_its_help() {
    tetris_test_support::command_page::check("tetris-webhook", |words| {
        let output = command().args(words).arg("--help").output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    });
}

#[test]
fn a_log_filter_that_cannot_be_read_is_an_error_that_names_its_origin() {
    let output = command().env("RUST_LOG", "inof").arg("patch").output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(2));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.starts_with("error: RUST_LOG: cannot read the log filter `inof`"),
        "{told}"
    );
    assert!(told.contains("did you mean `info`?"), "{told}");
}

fn patch(args: &[&str], input: &str) -> (bool, String, String) {
    let mut child = command()
        .arg("patch")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.success(),
        text(output.stdout),
        text(output.stderr),
    )
}

fn deployment(label: &str) -> String {
    let template = json!({
        "metadata": {"labels": {"app": "bert", "tetris.dev/inject": label}},
        "spec": {"containers": [{"name": "server", "image": "server"}]},
    });
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "bert"}, "spec": {"template": template}}).to_string()
}

#[test]
fn patch_prints_what_would_be_and_says_why() {
    let (good, printed, said) = patch(&[], &deployment("true"));
    assert!(good, "{said}");
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let spec = &printed["spec"]["template"]["spec"];
    assert_eq!(spec["volumes"][0]["csi"]["driver"], "csi.tetris.dev");
    assert!(said.contains("Deployment bert: injected"), "{said}");
    let (good, printed, said) = patch(&[], &deployment("maybe"));
    assert!(good && said.contains("found \"maybe\""), "{said}");
    let printed: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        printed,
        serde_json::from_str::<Value>(&deployment("maybe")).unwrap()
    );
}

#[test]
fn patch_reads_files_and_takes_options() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pod.json");
    std::fs::write(
        &path,
        json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}]}}).to_string(),
    )
    .unwrap();
    let path = path.to_str().unwrap();
    let args = [
        path,
        "--labeled-namespace",
        "--driver",
        "d.example.org",
        "--mount-path",
        "/mnt/store",
    ];
    let (good, printed, said) = patch(&args, "");
    assert!(
        good && printed.contains("d.example.org") && printed.contains("/mnt/store"),
        "{said}"
    );
    assert!(!printed.contains("PYTHONPATH"));
    let args = [
        "--labeled-namespace=python",
        "--python-path",
        "/mnt/python",
        path,
    ];
    let (good, printed, said) = patch(&args, "");
    assert!(
        good && printed.contains("PYTHONPATH") && printed.contains("/mnt/python"),
        "{said}"
    );
    let (good, _, said) = patch(&["--labeled-namespace=yes", path], "");
    assert!(!good && said.contains("possible values"), "{said}");
    let (_, printed, said) = patch(&[path], "");
    assert!(
        !printed.contains("csi") && said.contains("not-asked"),
        "{said}"
    );
}

#[test]
fn patch_says_what_it_cannot_use() {
    for (input, expected) in [
        ("kind: Pod", "expected an object in JSON"),
        ("{\"kind\":\"Service\"}", "found no pod"),
    ] {
        let (good, printed, said) = patch(&[], input);
        assert!(!good && printed.is_empty(), "{printed}");
        assert!(
            said.contains("standard input") && said.contains(expected),
            "{said}"
        );
    }
    let (good, _, said) = patch(&["/nowhere/pod.json"], "");
    assert!(!good && said.contains("/nowhere/pod.json"), "{said}");
    let (good, _, said) = patch(&["--mount-path", "store"], &deployment("true"));
    assert!(!good && said.contains("--mount-path"), "{said}");
}

#[test]
fn arguments_have_the_defaults_of_the_manifests() {
    let args = "tetris-webhook run --listen 0.0.0.0:8443 --metrics-listen 0.0.0.0:9461 --namespace tetris-system --service tetris-webhook \
                --secret tetris-webhook-tls --configuration tetris-webhook --driver csi.tetris.dev --mount-path /run/tetris/store \
                --log-format json";
    let full = Cli::try_parse_from(args.split_whitespace()).unwrap();
    let short =
        Cli::try_parse_from(["tetris-webhook", "run", "--namespace", "tetris-system"]).unwrap();
    let run = |cli: &Cli| {
        let cli::Command::Run(run) = &cli.command else {
            panic!("parsed as another command");
        };
        format!("{run:?}")
    };
    assert_eq!(run(&full), run(&short));
    let earlier = args.replace("--metrics-listen", "--metrics");
    let earlier = Cli::try_parse_from(earlier.split_whitespace()).unwrap();
    assert_eq!(run(&earlier), run(&full), "as earlier manifests name it");
}

#[test]
fn without_an_api_server_it_ends_and_says_what_to_do() {
    let output = command()
        .args([
            "run",
            "--namespace",
            "x",
            "--listen",
            "127.0.0.1:0",
            "--metrics-listen",
            "127.0.0.1:0",
        ])
        .env("KUBECONFIG", "/nowhere/config")
        .env("HOME", "/nowhere")
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && said.contains("set KUBECONFIG"),
        "{said}"
    );
}

/// The API server over a real socket.
pub async fn served(api: &Api) -> SocketAddr {
    let answer = async |State(api): State<Api>, request: Request| {
        let (parts, body) = request.into_parts();
        let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
        let (code, object) = api.with(|state| state.answer(&parts.method, parts.uri.path(), &body));
        (StatusCode::from_u16(code).unwrap(), axum::Json(object))
    };
    let router = axum::Router::new().fallback(answer).with_state(api.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// A kubeconfig for an API server.
pub fn kubeconfig(dir: &Path, server: SocketAddr) -> PathBuf {
    let path = dir.join("config");
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": format!("http://{server}")}}],
        "users": [{"name": "u", "user": {}}], "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    });
    std::fs::write(&path, config.to_string()).unwrap();
    path
}

/// The address in a field of a line of the log.
pub fn address(line: &str, field: &str) -> SocketAddr {
    let line: Value = serde_json::from_str(line).unwrap();
    line[field].as_str().unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_serves_until_it_is_told_to_end() {
    let api = Api::new();
    let dir = tempfile::tempdir().unwrap();
    let args = "run --log-format json --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0";
    let mut child = tokio::process::Command::from(command())
        .args(args.split_whitespace())
        .env("KUBECONFIG", kubeconfig(dir.path(), served(&api).await))
        .env("POD_NAMESPACE", "tetris-system")
        .kill_on_drop(true)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let listening = said.next_line().await.unwrap().unwrap();
    let (https, http) = (address(&listening, "reviews"), address(&listening, "pages"));
    while plain(http).await.get("/readyz").await.0 != StatusCode::OK {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut client = connect(&api, https).await.unwrap();
    let (status, _) = client.post("/mutate/namespace", review()).await;
    assert_eq!(status, StatusCode::OK);
    let pid = child.id().unwrap().to_string();
    let killed = Command::new("kill").args(["-TERM", &pid]).status();
    assert!(killed.unwrap().success());
    let mut rest = Vec::new();
    while let Some(line) = said.next_line().await.unwrap() {
        rest.push(serde_json::from_str::<Value>(&line).unwrap());
    }
    assert!(child.wait().await.unwrap().success(), "{rest:?}");
    assert!(
        rest.iter().any(|line| line["outcome"] == "injected"),
        "{rest:?}"
    );
    assert_eq!(rest.last().unwrap()["message"], "stopping");
}
