//! Log messages of libraries in this process, counted as events.

use std::fmt::{Debug, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};

use crate::torture::{EventLog, What};

/// Counts what libraries log from now on.
pub(super) fn start(log: EventLog) -> anyhow::Result<()> {
    tracing::subscriber::set_global_default(Listener(log))?;
    Ok(())
}

struct Listener(EventLog);

/// The fields that matter here.
#[derive(Default)]
struct Fields {
    message: String,
    all: String,
    reason: String,
    error: String,
    bytes: u64,
    freed_bytes: u64,
    reclaimed: String,
}

impl Visit for Fields {
    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "bytes" => self.bytes = value,
            "freed_bytes" => self.freed_bytes = value,
            _ => {}
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        let _ = write!(self.all, " {}={text}", field.name());
        match field.name() {
            "message" => self.message = text,
            "reason" => self.reason = text,
            "error" => self.error = text,
            "reclaimed" => self.reclaimed = text,
            _ => {}
        }
    }
}

impl Fields {
    fn event(self, level: Level) -> Option<(What, u64)> {
        if level == Level::ERROR {
            return Some((What::Failed(self.all), 0));
        }
        match self.message.as_str() {
            "the daemon made room" => Some((What::RoomMade, self.freed_bytes)),
            "the node's daemon made no room in the tensor store" => {
                Some((What::RoomRefused, self.bytes))
            }
            "the node's daemon gave no answer; this process makes room" => {
                Some((What::RoomUnanswered, 0))
            }
            "no socket: agents make room by themselves" => Some((What::NoSocket(self.error), 0)),
            "reclaim" if self.reclaimed.starts_with("Freed") => {
                Some((What::Freed(self.reason), self.bytes))
            }
            _ => None,
        }
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("tetris")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if let Some((what, bytes)) = fields.event(*event.metadata().level()) {
            // A process that writes its own events there notices a file that cannot be written to.
            let _ = self.0.append(what, bytes);
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
