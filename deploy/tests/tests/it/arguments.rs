//! Every container's arguments are parsed by the program that gets them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::LazyLock;

use clap::CommandFactory;
use serde_json::Value;
use tetris_deploy_tests::files;
use tetris_deploy_tests::kustomize::RENDERED;
use tetris_deploy_tests::objects::{Objects, Pods, list, text, texts};

use crate::daemon::Daemon;

/// Exit code of `tetris` after arguments that it does not understand.
const USAGE: i32 = 2;

#[test]
fn every_containers_arguments_are_parsed_by_its_program() {
    let mut programs = 0;
    for (name, _) in RENDERED {
        let objects = Objects::golden(name);
        for pods in objects.pods() {
            for container in pods.containers() {
                parse(&objects, &pods, container);
                programs += 1;
            }
        }
    }
    assert!(programs > RENDERED.len(), "{programs}");
}

/// As the operator adds them to the template of models' pods.
const OF_A_MODEL: [&str; 10] = [
    "keep",
    "--name",
    "m",
    "--ready-port",
    "8080",
    "--include=*.safetensors",
    "--connections=4",
    "--limit-rate=500M",
    "--",
    "hf://org/m@v1",
];

fn parse(objects: &Objects, pods: &Pods<'_>, container: &Value) {
    let mut command = texts(&container["command"]);
    command.extend(texts(&container["args"]));
    if pods.object["kind"] == "PodTemplate" && command[0] == "/usr/local/bin/tetris" {
        command.extend(OF_A_MODEL);
    }
    match command[0] {
        "/usr/local/bin/tetris-node" => {
            let definition = tetris_node::cli::Cli::command();
            let process = Daemon::of(objects).process(text(&container["name"]));
            let parsed = definition.try_get_matches_from(process.arguments());
            parsed.unwrap_or_else(|error| panic!("{}: {error}", pods.name()));
        }
        "/usr/local/bin/tetris-webhook" => {
            parsed_by(tetris_webhook::cli::Cli::command(), &command, container);
        }
        "/usr/local/bin/tetris-scaler" => {
            parsed_by(tetris_scaler::cli::Cli::command(), &command, container);
        }
        "/usr/local/bin/tetris-gateway" => {
            parsed_by(tetris_gateway::cli::Cli::command(), &command, container);
        }
        "/usr/local/bin/tetris" => understood_by_tetris(&command[1..]),
        "python" => understood_by_server(text(&container["image"]), &command),
        "tetris-instance" => understood_by_the_instance(&command[1..]),
        "vllm" => understood_by_vllm(&command[1..]),
        other => panic!("{}: no definition of `{other}` is known", pods.name()),
    }
}

/// The kubelet replaces `$(NAME)` by the container's variable.
fn parsed_by(definition: clap::Command, command: &[&str], container: &Value) {
    let expanded = command.iter().map(|argument| {
        let name = argument
            .strip_prefix("$(")
            .and_then(|rest| rest.strip_suffix(')'));
        let Some(name) = name else {
            return (*argument).to_owned();
        };
        let mut variables = list(&container["env"]).iter();
        assert!(variables.any(|variable| variable["name"] == name), "{name}");
        "tetris-system".to_owned()
    });
    let expanded: Vec<_> = expanded.collect();
    let parsed = definition.try_get_matches_from(&expanded);
    parsed.unwrap_or_else(|error| panic!("{error}"));
}

/// The command's definition is in the program alone. So it runs, without a store and a model, and reports how far it came.
fn understood_by_tetris(arguments: &[&str]) {
    let code = ended_with(arguments);
    assert_ne!(code, USAGE, "{arguments:?}");
    let mut wrong = vec!["--no-such-option"];
    wrong.extend(arguments);
    assert_eq!(ended_with(&wrong), USAGE, "{arguments:?}");
}

fn ended_with(arguments: &[&str]) -> i32 {
    static TETRIS: LazyLock<PathBuf> = LazyLock::new(built);
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(&*TETRIS);
    command.args(arguments).env("TETRIS_STORE", dir.path());
    let output = command.current_dir(files::deploy()).output().unwrap();
    output.status.code().unwrap()
}

/// Builds the program, and returns its path.
fn built() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--offline", "--locked"]);
    // Without a package, cargo resolves the features of the whole workspace.
    command.args(["--bin", "tetris", "--message-format", "json"]);
    let output = command.current_dir(files::deploy()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let mut paths = messages.filter_map(|message| {
        let path = message["executable"].as_str()?;
        Some(PathBuf::from(path))
    });
    paths.next().unwrap()
}

/// The reference instance server, whose options are defined in one file.
fn understood_by_the_instance(arguments: &[&str]) {
    let source = files::read("../scaler/instance/src/tetris_instance/options.py");
    let flags: Vec<_> = arguments.iter().filter(|a| a.starts_with("--")).collect();
    assert!(!flags.is_empty());
    for flag in flags {
        let defined = source.contains(&format!("add(\"{flag}\""));
        assert!(defined, "the instance server has no option {flag}");
    }
}

/// The samples' own servers. Their frameworks are not here, so it is their text that is asked.
fn understood_by_server(image: &str, command: &[&str]) {
    let folder = image.strip_prefix("tetris-sample-").unwrap();
    let (program, arguments) = (command[1], &command[2..]);
    let file = program.strip_prefix("/app/").unwrap();
    let source = files::read(&format!("samples/{folder}/{file}"));
    for flag in arguments
        .iter()
        .filter(|argument| argument.starts_with('-'))
    {
        assert!(
            source.contains(&format!("add_argument(\"{flag}\"")),
            "{image}: {flag}"
        );
    }
}

/// vLLM is not here: agent/python/tests/engines/test_vllm.py has its own server parse them. The load format is ours.
fn understood_by_vllm(arguments: &[&str]) {
    assert_eq!(arguments[0], "serve");
    let mut pairs = arguments.windows(2);
    let format = pairs.find_map(|pair| (pair[0] == "--load-format").then_some(pair[1]));
    let Some(format) = format else {
        // A folder with the files, which vLLM's own format loads.
        assert!(arguments[1].starts_with("/models/"));
        return;
    };
    let source = files::read("../agent/python/python/tetris/_vllm/__init__.py");
    assert!(source.contains(&format!("LOAD_FORMAT = \"{format}\"")));
}
