//! Annotations that are wrong in part.

use std::io::Write;
use std::sync::{Arc, Mutex};

use tetris_node::kubernetes::Fault;
use tracing_subscriber::fmt::MakeWriter;

use crate::kubernetes::server::{pod, status};
use crate::kubernetes::watched::{Watched, pods};

#[tokio::test(start_paused = true)]
async fn what_is_malformed_is_left_out_and_counted_once_per_pod() {
    let mut watched = Watched::start();
    let bad = pod("bad", "bert, sha256:12 manifest:");
    let watch = watched
        .server
        .sync(&[bad.clone(), pod("good", "gpt2")])
        .await;
    let expected = pods([("bad", "bert"), ("good", "gpt2")]);
    assert_eq!(watched.next().await, ("current", expected.clone()));
    watch.event("MODIFIED", &bad);
    watch.event("ERROR", &status(410));
    assert_eq!(watched.next().await, ("stale", expected.clone()));
    watched
        .server
        .next_list()
        .await
        .page(std::slice::from_ref(&bad), "more");
    watched.server.next_list().await.status(500);
    let watch = watched
        .server
        .sync(&[bad.clone(), pod("good", "gpt2")])
        .await;
    assert_eq!(watched.next().await, ("current", expected));
    assert_eq!(watched.fault_count(Fault::Declarations(2)), 1);

    watch.event("MODIFIED", &pod("bad", "bert llama"));
    watched.next().await;
    watch.event("MODIFIED", &bad);
    watched.next().await;
    assert_eq!(
        watched.fault_count(Fault::Declarations(2)),
        2,
        "wrong again after it was right"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_declares_nothing_right_is_left_out() {
    let mut watched = Watched::start();
    let _watch = watched.server.sync(&[pod("bad", "sha256:")]).await;
    assert_eq!(watched.next().await, ("current", pods([])));
    assert_eq!(watched.fault_count(Fault::Declarations(1)), 1);
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Log {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn the_log_names_the_pod_and_the_item() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(log.clone());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    let mut watched = Watched::start();
    let _watch = watched
        .server
        .sync(&[pod("bad", "sha256:12\u{202e}")])
        .await;
    watched.next().await;
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("left out"))
        .collect();
    let [line] = lines[..] else { panic!("{log}") };
    for part in [
        "WARN",
        "blue",
        "bad",
        "tetris.dev/models",
        "sha256:",
        r"12\u{202e}",
    ] {
        assert!(line.contains(part), "{part} is not in {line}");
    }
    assert!(!line.contains('\u{202e}'));
}
