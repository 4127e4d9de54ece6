//! `exec`: the references live as long as CMD, and CMD does not notice.

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;

use nix::sys::signal::Signal;

use crate::init::Mounted;
use crate::site::{Background, Run, Site, eventually, run, tetris};

/// Reports that it runs, and waits until stdin is closed.
const WAIT: &str = "echo up; read line";

impl Site {
    fn exec(&self, shell: &str) -> std::process::Command {
        let model = self.fixture.model("m.safetensors", 1);
        let mut command = self.command(&["exec"]);
        command
            .arg("--model")
            .arg(model)
            .args(["--", "sh", "-c", shell]);
        command
    }

    /// The process that holds the references, found by its command line.
    fn holder(&self) -> Option<u32> {
        let store = self.store_dir().to_str().unwrap();
        let pids = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok());
        pids.into_iter().find(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains(store) && line.contains("--detached")
        })
    }
}

#[test]
fn references_live_as_long_as_the_command() {
    let site = Site::new();
    let mut command = Background::start(&mut site.exec(WAIT));
    assert_eq!(command.line(), "up");
    assert!(site.referenced() > 0);
    assert_eq!(site.json(&["gc"])["freed_objects"], 0);
    assert!(command.finish().code().is_some());
    eventually("released", || site.referenced() == 0);
    eventually("the holder has ended", || site.holder().is_none());
}

#[test]
fn the_command_finds_the_store_and_python_is_told_to_use_it() {
    let site = Site::new();
    let print = "echo $TETRIS_STORE $TETRIS_PATCH";
    let output = |mut command: std::process::Command| run(&mut command).expect(0).stdout;
    let store = site.store_dir().to_str().unwrap().to_owned();
    assert_eq!(output(site.exec(print)), format!("{store} 1\n"));

    // It ends by itself, a moment after the command.
    eventually("the holder has ended", || site.holder().is_none());
    let without_model = || site.command(&["exec", "--", "sh", "-c", print]);
    assert_eq!(output(without_model()), format!("{store} 1\n"));
    assert!(site.holder().is_none());
    // A caller who has set it knows better.
    let mut command = without_model();
    command.env("TETRIS_PATCH", "files");
    assert_eq!(output(command), format!("{store} files\n"));
}

#[test]
fn references_end_when_the_command_is_killed() {
    let site = Site::new();
    let mut command = Background::start(&mut site.exec(WAIT));
    assert_eq!(command.line(), "up");
    assert!(site.referenced() > 0);
    command.signal(Signal::SIGKILL);
    assert_eq!(command.child.wait().unwrap().signal(), Some(9));
    eventually("released", || site.referenced() == 0);
}

#[test]
fn references_live_when_the_command_closes_all_that_it_inherited() {
    let site = Site::new();
    let shell = "for fd in 2 3 4 5 6 7 8 9; do eval \"exec $fd>&-\"; done; echo up; read line";
    let mut command = Background::start(&mut site.exec(shell));
    assert_eq!(command.line(), "up");
    assert!(site.referenced() > 0);
    command.finish();
    eventually("released", || site.referenced() == 0);
}

#[test]
fn exit_code_and_signals_are_those_of_the_command() {
    let site = Site::new();
    for code in [0, 3, 7, 255] {
        run(&mut site.exec(&format!("exit {code}"))).expect(code);
    }
    let killed = run(&mut site.exec("kill -TERM $$"));
    assert_eq!((killed.code, killed.signal), (None, Some(15)));
    let mut command = Background::start(&mut site.exec("echo $$; read line"));
    assert_eq!(
        command.line(),
        command.child.id().to_string(),
        "the same process"
    );
    command.signal(Signal::SIGTERM);
    assert_eq!(command.child.wait().unwrap().signal(), Some(15));
}

#[test]
fn the_command_has_its_streams_for_itself() {
    let site = Site::new();
    // It closes stderr and another stream; their readers must see the end while it runs.
    let inner = "exec 2>&- 3>&-; read line";
    let model = site.fixture.model("m.safetensors", 1);
    let (mut third, writer) = std::io::pipe().unwrap();
    let (mut stderr, errors) = std::io::pipe().unwrap();
    let mut outer = std::process::Command::new("sh");
    outer.args(["-c", "exec \"$@\" 3>&1 1>/dev/null", "sh"]);
    outer
        .arg(env!("CARGO_BIN_EXE_tetris"))
        .arg("--store")
        .arg(site.store_dir());
    outer
        .args(["exec", "--model"])
        .arg(&model)
        .args(["--", "sh", "-c", inner]);
    let mut child = outer
        .stdin(Stdio::piped())
        .stdout(writer)
        .stderr(errors)
        .spawn()
        .unwrap();
    // The command keeps the writing ends of the pipes.
    drop(outer);
    let mut text = String::new();
    third.read_to_string(&mut text).unwrap();
    stderr.read_to_string(&mut text).unwrap();
    assert_eq!(text, "");
    assert!(child.try_wait().unwrap().is_none(), "it waits for stdin");
    assert!(site.referenced() > 0);
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn a_pipeline_ends_with_the_command() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let mut shell = std::process::Command::new("sh");
    shell.args([
        "-c",
        "\"$0\" --store \"$1\" exec -m \"$2\" -- echo hi 2>&1 | cat",
    ]);
    shell
        .arg(env!("CARGO_BIN_EXE_tetris"))
        .arg(site.store_dir())
        .arg(model);
    assert_eq!(run(&mut shell).expect(0).stdout, "hi\n");
}

#[test]
fn the_command_has_no_child_that_it_did_not_start() {
    let site = Site::new();
    let shell = "read children < /proc/$$/task/$$/children; echo \"[$children]\"";
    let run = run(&mut site.exec(shell)).expect(0);
    assert_eq!(run.stdout, "[]\n");
}

#[test]
fn what_ends_a_service_does_not_end_its_references_first() {
    let site = Site::new();
    let mut command = Background::start(&mut site.exec(WAIT));
    assert_eq!(command.line(), "up");
    let holder = site.holder().unwrap();
    let status = fs::read_to_string(format!("/proc/{holder}/status")).unwrap();
    let blocked = status
        .lines()
        .find_map(|line| line.strip_prefix("SigBlk:"))
        .unwrap();
    let blocked = u64::from_str_radix(blocked.trim(), 16).unwrap();
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ] {
        assert_ne!(blocked & 1 << (signal as u64 - 1), 0, "{signal}");
    }
    let stat = fs::read_to_string(format!("/proc/{holder}/stat")).unwrap();
    // After the name: state, parent, process group, session.
    let (_, rest) = stat.rsplit_once(") ").unwrap();
    let session = rest.split(' ').nth(3).unwrap();
    assert_eq!(session, holder.to_string(), "a session of its own");
    assert_eq!(
        fs::read_link(format!("/proc/{holder}/cwd"))
            .unwrap()
            .to_str(),
        Some("/")
    );
    command.finish();
}

#[test]
fn a_command_that_cannot_run_has_the_shell_s_codes() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let args = [
        "exec".as_ref(),
        "-m".as_ref(),
        model.as_os_str(),
        "--".as_ref(),
    ];
    let run = |program: &std::ffi::OsStr| {
        let output = site.command(&args).arg(program).output().unwrap();
        Run::of(&output)
    };
    let missing = run("no-such-program".as_ref()).expect(127);
    assert!(
        missing.stderr.contains("cannot run `no-such-program`"),
        "{missing:?}"
    );
    run(model.as_os_str()).expect(126);
    eventually("released", || site.referenced() == 0);
}

#[test]
fn a_missing_model_is_code_4_and_nothing_runs() {
    let site = Site::new();
    let ran = site.dir().join("ran");
    let bad = site.dir().join("bad.safetensors");
    fs::write(&bad, b"not a model").unwrap();
    let missing = site.dir().join("missing");
    for model in [&bad, &missing] {
        let mut command = site.command(&["exec", "--model"]);
        command.arg(model).args(["--", "touch"]).arg(&ran);
        let run = run(&mut command).expect(4);
        assert!(run.stderr.contains(model.to_str().unwrap()), "{run:?}");
    }
    let mut command = tetris();
    command
        .args(["--store", "/nowhere", "exec", "--model"])
        .arg(&missing);
    run(command.args(["--", "touch"]).arg(&ran)).expect(4);
    assert!(!ran.exists());
}

#[test]
fn without_a_store_the_command_runs_all_the_same() {
    let site = Site::new();
    let model = site.fixture.model("m.safetensors", 1);
    let mut command = tetris();
    command
        .args(["--store", "/nowhere", "exec", "--model"])
        .arg(&model);
    let run = run(command.args(["--", "sh", "-c", "echo $0; exit 9", "{}"])).expect(9);
    assert_eq!(run.stdout.trim_end(), model.to_str().unwrap());
    assert!(
        run.stderr
            .contains("warning: there is no tensor store at `/nowhere`"),
        "{run:?}"
    );
}

#[test]
fn with_a_full_store_the_command_runs_all_the_same() {
    let site = Site::new();
    let Some(small) = Mounted::new(&["--size", "4MiB"]) else {
        return;
    };
    let model = site.fixture.model("m.safetensors", 1);
    let file = site.dir().join("large.gguf");
    fs::write(&file, tetris_test_support::models::bytes(4, 6_000_000)).unwrap();
    let mut command = tetris();
    command.arg("--store").arg(&small.dir).arg("exec");
    command.arg("-m").arg(&model).arg("-m").arg(&file);
    let run = run(command.args(["--", "echo", "{1}", "{2}"])).expect(0);
    let expected = format!("{} {}\n", model.display(), file.display());
    assert_eq!(run.stdout, expected);
    assert!(
        run.stderr.contains("not all of") && run.stderr.contains("large.gguf"),
        "{run:?}"
    );
}
