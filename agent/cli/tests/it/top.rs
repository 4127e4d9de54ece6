//! `top`.

use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::site::{Background, Site, eventually, skipped};

#[test]
fn a_look_shows_stores_models_and_holders() {
    let site = Site::new();
    let path = site.fixture.model("m.safetensors", 1);
    let models: Vec<_> = (0..3)
        .map(|_| site.fixture.agent.load(&path).unwrap())
        .collect();
    let objects = models[0].objects().count();
    let look = site.json_when(&["top", "--once"], |look| {
        look["stores"][0]["holders"] == 3 * objects
    });
    let store = &look["stores"][0];
    assert_eq!(store["store"], site.store_dir().to_str().unwrap());
    assert_eq!(store["objects"], objects);
    assert_eq!(store["saved_bytes"], 2 * models[0].report().bytes_total());
    assert_eq!(store["models"][0]["holders"], 3);
    assert_eq!(store["models"][0]["last_path"], path.to_str().unwrap());
    assert_eq!(store["processes"][0]["pid"], std::process::id());
    assert_eq!(store["loads"], 0);
    let text = site.run(&["top", "--once"]).expect(0).stdout;
    assert!(text.contains("m.safetensors"), "{text}");
    assert!(text.contains("HELD BY"), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "no terminal, no escapes: {text}");
}

#[test]
fn loads_under_way_are_shown_with_their_process() {
    let site = Site::new();
    let store = site.fixture.store();
    let key = tetris_store_layout::Digest::of(b"a file");
    let lock = store.creation_lock(&key, std::time::Duration::ZERO, || false);
    assert!(lock.is_some());
    let staging = store.stage(3 << 20).unwrap();
    let look = site.json_when(&["top", "--once"], |look| look["stores"][0]["loads"] == 1);
    let loading = &look["stores"][0]["loading"][0];
    assert_eq!(loading["pid"], std::process::id());
    assert_eq!(
        (&loading["objects"], &loading["bytes"]),
        (&1.into(), &(3 << 20).into())
    );
    let text = site.run(&["top", "--once"]).expect(0).stdout;
    assert!(
        text.contains("loading: ") && text.contains("3.00 MiB"),
        "{text}"
    );
    drop((staging, lock));
    let look = site.json_when(&["top", "--once"], |look| look["stores"][0]["loads"] == 0);
    assert_eq!(look["stores"][0]["loading"], serde_json::json!([]));
}

#[test]
fn looks_go_on_until_they_are_interrupted() {
    let site = Site::new();
    let mut command = site.command(&["top", "--interval", "100ms", "--format", "json"]);
    let mut top = Background::start(&mut command);
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&top.line()).unwrap();
        assert_eq!(line["stores"][0]["objects"], 0);
    }
    top.signal(Signal::SIGINT);
    assert_eq!(top.finish().code(), Some(0));
}

#[test]
fn a_reader_that_leaves_ends_it() {
    let site = Site::new();
    let mut command = site.command(&["top", "--interval", "100ms"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    eventually("it ends", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_terminal_gets_its_screen_back() {
    let site = Site::new();
    // In place of the shell, which Ctrl-C reaches too, and which would then end by it.
    let command = format!(
        "exec {} --store {} top --interval 100ms",
        env!("CARGO_BIN_EXE_tetris"),
        site.store_dir().display()
    );
    let mut script = Command::new("script");
    script
        .args(["-qec", &command, "/dev/null"])
        .env("TERM", "xterm");
    script
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let Ok(mut child) = script.spawn() else {
        return skipped("needs `script` of util-linux for a terminal");
    };
    let mut out = child.stdout.take().unwrap();
    let mut seen = Vec::new();
    let mut chunk = [0; 4096];
    let home = b"\x1b[H";
    // Two looks, each over the last one.
    while seen.windows(home.len()).filter(|part| part == home).count() < 2 {
        let read = std::io::Read::read(&mut out, &mut chunk).unwrap();
        assert!(read > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend(&chunk[..read]);
    }
    // Ctrl-C by the terminal's own character.
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, b"\x03").unwrap();
    std::io::Read::read_to_end(&mut out, &mut seen).unwrap();
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let text = String::from_utf8_lossy(&seen);
    assert!(text.starts_with("\x1b[?1049h"), "{text:?}");
    assert!(
        text.trim_end().ends_with("\x1b[?25h\x1b[?1049l"),
        "{text:?}"
    );
}
