//! Logs.

use std::sync::{Arc, Mutex};

use tetris_conventions::log_filter::LogFilter;
use tetris_service_kit::logs::{LogFormat, subscriber};
use tracing_subscriber::fmt::MakeWriter;

/// Keeps what is written.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Kept {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(buf)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Kept {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn logged(format: LogFormat, filter: &str) -> String {
    let kept = Kept::default();
    let filter = LogFilter::find(Some(filter), |_| None, "info").unwrap();
    let subscriber = subscriber(format, &filter, false, kept.clone()).unwrap();
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(store = "a", bytes = 7_u64, "freed\nmuch");
        tracing::debug!("details");
    });
    String::from_utf8(kept.0.lock().unwrap().clone()).unwrap()
}

#[test]
fn json_is_one_object_per_event() {
    let lines = logged(LogFormat::Json, "info");
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let event: serde_json::Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(event["level"], "INFO");
    assert_eq!(event["message"], "freed\nmuch");
    assert_eq!(event["store"], "a");
    assert_eq!(event["bytes"], 7);
    assert!(event["timestamp"].is_string());
}

#[test]
fn text_has_the_fields_too_and_the_filter_holds() {
    let text = logged(LogFormat::Text, "info");
    assert!(text.contains("store=\"a\" bytes=7"), "{text}");
    assert!(!text.contains("details"), "{text}");
    assert!(logged(LogFormat::Text, "debug").contains("details"));
    assert!(logged(LogFormat::Text, "warn").is_empty());
}

#[test]
fn a_filter_of_one_target_leaves_the_others_their_default() {
    assert!(logged(LogFormat::Text, "hyper=debug").contains("freed"));
    assert!(logged(LogFormat::Text, "off,hyper=debug").is_empty());
}
