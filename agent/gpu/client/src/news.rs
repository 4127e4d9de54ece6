//! Messages of the server about a held model, and the reasons for their end.

use std::time::Instant;

use tetris_wire::{WireError, after};

use super::error::unexpected;
use super::{Client, ClientError};
use tetris_gpu_protocol::{Reason, Reply};

/// Name of these messages in errors.
const NEWS: &str = "news of the model";

/// Reasons for the end of the server's messages.
#[derive(Debug, Clone)]
pub(super) enum Ended {
    Closed,
    /// The connection failed, or the server broke the protocol.
    Broken,
    Failed(Reason, String),
}

impl Ended {
    /// The end that an error means.
    pub fn of(error: ClientError) -> Self {
        match error {
            ClientError::Failed { reason, text } => Self::Failed(reason, text),
            ClientError::Closed => Self::Closed,
            _ => Self::Broken,
        }
    }

    pub fn error(&self) -> ClientError {
        match self {
            Self::Closed => ClientError::Closed,
            Self::Broken => unexpected(NEWS),
            Self::Failed(reason, text) => ClientError::Failed {
                reason: *reason,
                text: text.clone(),
            },
        }
    }
}

/// Receives the next message, if one begins before the deadline. Once it has begun, the
/// connection's timeout applies.
pub(super) fn next(client: &Client, deadline: Instant) -> Result<Option<Reply>, ClientError> {
    match client.connection.until_readable(deadline) {
        Ok(()) => {}
        Err(WireError::TimedOut) => return Ok(None),
        Err(error) => return Err(ClientError::of(error, NEWS, client.timeout)),
    }
    let (reply, _) = client.reply_with(after(client.timeout), NEWS)?;
    Ok(Some(reply))
}
