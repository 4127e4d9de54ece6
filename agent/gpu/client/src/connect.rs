//! A connection to the server.

use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use tetris_wire::{ConnectError, Connection, Frame, after, connect};

use super::ClientError;
use tetris_gpu_device::MemoryKind;
use tetris_gpu_protocol::{
    DeviceEntry, ErrorCode, PROTOCOL, Reply, Request, StatusReport, carries_descriptors,
};

/// A connection to the server that holds no model.
#[derive(Debug)]
pub struct Client {
    pub(super) connection: Connection,
    pub(super) timeout: Duration,
}

/// Ends a connection that another thread may be using; that thread finds it closed.
#[derive(Debug)]
pub struct HangUp(UnixStream);

impl HangUp {
    /// Ends the connection.
    pub fn now(&self) {
        // It fails only if the connection has already ended.
        let _ended = self.0.shutdown(Shutdown::Both);
    }
}

impl Client {
    /// Connects to the server at `path`, and announces `memory` as the kind that this process can
    /// import. `timeout` limits the connection, and then each answer.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if no server listens there, it does not answer in time, or its kind of
    /// memory differs.
    pub fn connect(
        path: &Path,
        memory: MemoryKind,
        timeout: Duration,
    ) -> Result<Self, ClientError> {
        let deadline = after(timeout);
        let stream = connect(path, deadline).map_err(|error| match error {
            ConnectError::NoListener => ClientError::NoServer {
                path: path.to_owned(),
            },
            ConnectError::TimedOut => ClientError::TimedOut {
                expected: "a place in the mirror's queue",
                limit: timeout,
            },
            ConnectError::Io(source) => ClientError::Connect {
                path: path.to_owned(),
                source,
            },
        })?;
        let connection = Connection::trusted(stream, carries_descriptors);
        let connection = connection.map_err(ClientError::Io)?;
        let client = Self {
            connection,
            timeout,
        };
        client.greet(memory, deadline)?;
        Ok(client)
    }

    /// Connects like [`Self::connect`], trying `kinds` one after the other. Returns the kind that
    /// the server has.
    pub fn connect_any(
        path: &Path,
        kinds: &[MemoryKind],
        timeout: Duration,
    ) -> Result<(Self, MemoryKind), ClientError> {
        let mut refused = ClientError::Unexpected {
            expected: "a kind of memory to ask for",
        };
        for kind in kinds {
            match Self::connect(path, *kind, timeout) {
                Ok(client) => return Ok((client, *kind)),
                Err(
                    error @ ClientError::Server {
                        code: ErrorCode::OTHER_MEMORY,
                        ..
                    },
                ) => refused = error,
                Err(error) => return Err(error),
            }
        }
        Err(refused)
    }

    /// Returns a handle that ends this connection from another thread, also during a wait.
    pub fn hang_up(&self) -> Result<HangUp, ClientError> {
        let stream = self.connection.duplicate().map_err(ClientError::Io)?;
        Ok(HangUp(stream))
    }

    fn greet(&self, memory: MemoryKind, deadline: Instant) -> Result<(), ClientError> {
        let failed = |error| ClientError::of(error, "the mirror's greeting", self.timeout);
        let sent = self.connection.send(&PROTOCOL.preamble(), deadline);
        sent.map_err(failed)?;
        let theirs = self.connection.preamble(deadline).map_err(failed)?;
        PROTOCOL.check_preamble(&theirs)?;
        let pid = std::process::id();
        self.send(&Request::Hello { memory, pid }, deadline)?;
        match self.reply(deadline, "the mirror's greeting")? {
            Reply::HelloAck { memory: found, .. } if found == memory => Ok(()),
            _ => Err(ClientError::Unexpected {
                expected: "HelloAck with this client's kind of memory",
            }),
        }
    }

    /// Lists the server's devices.
    pub fn devices(&mut self) -> Result<Vec<DeviceEntry>, ClientError> {
        match self.ask(&Request::ListDevices)? {
            Reply::Devices(devices) => Ok(devices),
            _ => Err(ClientError::Unexpected {
                expected: "Devices",
            }),
        }
    }

    /// Returns the server's status.
    pub fn status(&mut self) -> Result<StatusReport, ClientError> {
        match self.ask(&Request::Status)? {
            Reply::StatusReport(report) => Ok(report),
            _ => Err(ClientError::Unexpected {
                expected: "StatusReport",
            }),
        }
    }

    fn ask(&self, request: &Request) -> Result<Reply, ClientError> {
        let deadline = after(self.timeout);
        self.send(request, deadline)?;
        self.reply(deadline, "an answer")
    }

    pub(super) fn send(&self, request: &Request, deadline: Instant) -> Result<(), ClientError> {
        let sent = self.connection.send(&request.encode(), deadline);
        sent.map_err(|error| ClientError::of(error, "the mirror to listen", self.timeout))
    }

    /// Receives the next message. An error reported by the server becomes an error here.
    fn reply(&self, deadline: Instant, expected: &'static str) -> Result<Reply, ClientError> {
        self.reply_with(deadline, expected).map(|(reply, _)| reply)
    }

    /// Receives the next message and its descriptors.
    pub(super) fn reply_with(
        &self,
        deadline: Instant,
        expected: &'static str,
    ) -> Result<(Reply, Vec<OwnedFd>), ClientError> {
        let received = self.connection.receive(deadline);
        let failed = |error| ClientError::of(error, expected, self.timeout);
        let (Frame { kind, payload }, descriptors) = received.map_err(failed)?;
        match Reply::decode(kind, &payload)? {
            Reply::Error { code, text } => Err(ClientError::Server { code, text }),
            Reply::Refused(refused) => Err(ClientError::Refused(refused)),
            Reply::Failed { reason, text } => Err(ClientError::Failed { reason, text }),
            reply => Ok((reply, descriptors)),
        }
    }
}
