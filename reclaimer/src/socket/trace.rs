//! Spans of the requests of a client.

use std::fmt;

use tetris_service_kit::traces;
use tetris_wire::Peer;
use tetris_wire::daemon::Message;
use tracing::Span;

use super::connection::Client;

impl Client {
    /// Span of a request, within that of the client if it said one.
    pub(super) fn span<E: fmt::Debug>(
        &self,
        message: &Result<Message, E>,
        parent: Option<&str>,
    ) -> Span {
        let Some(request) = message.as_ref().ok().and_then(name) else {
            return Span::none();
        };
        let Peer { uid, pid, .. } = self.peer;
        let store = &self.target.name;
        let span = tracing::debug_span!("client", otel.kind = "server", request, store, uid, pid);
        if let Some(parent) = parent {
            traces::follow(&span, parent);
        }
        span
    }
}

/// Name of a request that takes the daemon some time.
const fn name(message: &Message) -> Option<&'static str> {
    match message {
        Message::Ingest { .. } => Some("ingest"),
        Message::Publish { .. } => Some("publish"),
        Message::Assemble { .. } => Some("assemble"),
        Message::RecordDerived(_) => Some("record"),
        Message::TakeTurn(_) => Some("turn"),
        Message::MakeRoom { .. } => Some("room"),
        Message::RestoreModel { .. } => Some("restore"),
        _ => None,
    }
}
