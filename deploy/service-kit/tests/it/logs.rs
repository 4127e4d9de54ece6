//! Logs.

use std::sync::{Arc, Mutex};

use tetris_service_kit::logs::{LogError, LogFormat, subscriber};
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
    let subscriber = subscriber(format, filter, false, kept.clone()).unwrap();
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
fn a_filter_that_is_none_is_an_error_with_a_next_step() {
    let err = subscriber(LogFormat::Text, "a=b=c", false, std::io::sink)
        .err()
        .unwrap();
    assert!(matches!(err, LogError::Filter { .. }));
    assert!(
        err.to_string().starts_with("log filter \"a=b=c\": "),
        "{err}"
    );
    assert!(
        err.to_string().contains("expected a level or a list"),
        "{err}"
    );
}
