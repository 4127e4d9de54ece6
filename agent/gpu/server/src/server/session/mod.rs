//! A connection: its requests, one after the other.

mod acquire;
mod describe;
mod lease;
mod model;
mod prefetch;
mod status;

use std::sync::Arc;
use std::time::Instant;

use tetris_wire::{Connection, ProtocolError, WireError, is_readable};
use thiserror::Error;

use super::core::Core;
use super::importer::Importer;
use super::mailbox::Mailbox;
use super::tenant::Tenant;
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::{ErrorCode, PROTOCOL, Reply, Request};

/// Reason for the end of a connection.
#[derive(Debug, Error)]
pub(super) enum Ended {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("expected {expected}, found another message")]
    OutOfTurn { expected: &'static str },
    #[error("the client imports {found}, the server hands out {expected}")]
    OtherMemory { expected: String, found: String },
}

impl From<ProtocolError> for Ended {
    fn from(error: ProtocolError) -> Self {
        Self::Wire(error.into())
    }
}

impl Ended {
    /// The error code for the client, if it can still be notified.
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Wire(WireError::Protocol(error)) => Some(match error {
                ProtocolError::UnknownKind(_) => ErrorCode::UNKNOWN_KIND,
                _ => ErrorCode::MALFORMED,
            }),
            Self::Wire(_) => None,
            Self::OutOfTurn { .. } => Some(ErrorCode::OUT_OF_TURN),
            Self::OtherMemory { .. } => Some(ErrorCode::OTHER_MEMORY),
        }
    }
}

/// A connection's thread.
pub(super) struct Session<D: DeviceMemory> {
    pub core: Arc<Core<D>>,
    pub tenant: Arc<Tenant>,
    pub connection: Arc<Connection>,
    pub mailbox: Arc<Mailbox>,
    /// The client's process.
    pub importer: Arc<Importer>,
}

impl<D: DeviceMemory> Session<D> {
    /// Serves the client until it hangs up, times out, or the server ends.
    pub fn run(&self) {
        self.talk_to_the_end();
        self.importer.hung_up();
        self.core.state().sweep();
    }

    fn talk_to_the_end(&self) {
        let Err(ended) = self.talk();
        if matches!(ended, Ended::Wire(WireError::Closed)) {
            return;
        }
        // A client with several kinds of memory tries one after the other.
        if !matches!(ended, Ended::OtherMemory { .. }) {
            self.core.metrics.connections_broken.one();
        }
        tracing::debug!(reason = %ended, "a connection to the mirror ended");
        if let Some(code) = ended.code() {
            let text = ended.to_string();
            // The client may already be gone.
            let _told = self.reply(&Reply::Error { code, text });
        }
        self.connection.hang_up();
    }

    fn talk(&self) -> Result<std::convert::Infallible, Ended> {
        self.greet()?;
        loop {
            match self.request()? {
                Request::ListDevices => self.reply(&self.devices())?,
                Request::Status => self.reply(&self.status())?,
                Request::Describe(describe) => self.describe(&describe)?,
                Request::Acquire(acquire) => {
                    if let Some(lease) = self.acquire(&acquire)? {
                        self.serve(lease)?;
                    }
                }
                Request::Prefetch(acquire) => {
                    self.core.metrics.prefetches.one();
                    if let Some(lease) = self.acquire(&acquire)? {
                        self.hold(lease)?;
                    }
                }
                _ => {
                    let expected = "ListDevices, Status, Describe, Acquire or Prefetch";
                    return Err(Ended::OutOfTurn { expected });
                }
            }
        }
    }

    fn greet(&self) -> Result<(), Ended> {
        let deadline = self.deadline();
        let theirs = self.connection.preamble(deadline)?;
        // Also to a client of another version, which learns this version from it.
        self.connection.send(&PROTOCOL.preamble(), deadline)?;
        PROTOCOL.check_preamble(&theirs)?;
        let Request::Hello { memory, .. } = self.request()? else {
            let expected = "Hello";
            return Err(Ended::OutOfTurn { expected });
        };
        if memory != D::KIND {
            return Err(Ended::OtherMemory {
                expected: format!("{:?}", D::KIND),
                found: format!("{memory:?}"),
            });
        }
        self.reply(&Reply::HelloAck {
            memory,
            server: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }

    /// Deadline for the client's next message, or for receiving an answer.
    fn deadline(&self) -> Instant {
        Instant::now() + self.core.limits().message_timeout
    }

    /// Receives the next message.
    fn request(&self) -> Result<Request, Ended> {
        self.request_by(self.deadline())
    }

    fn request_by(&self, deadline: Instant) -> Result<Request, Ended> {
        let (frame, _) = self.connection.receive(deadline)?;
        let _turn = self.tenant.turn();
        Ok(Request::decode(frame.kind, &frame.payload)?)
    }

    fn reply(&self, reply: &Reply) -> Result<(), Ended> {
        Ok(self.connection.send(&reply.encode(), self.deadline())?)
    }

    /// Waits for a message, for news, or until `until`, if given. Returns the message, if one came.
    fn listen(&self, until: Option<Instant>) -> Result<Option<Request>, Ended> {
        use std::os::fd::AsFd;
        let ready = is_readable(self.connection.as_fd(), &self.mailbox.bell, until)?;
        if ready.socket {
            return self.request().map(Some);
        }
        Ok(None)
    }
}
