//! A client of the daemon's socket that sends any bytes, with any descriptors.

use std::io::{IoSlice, Read as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use tetris_agent::ManifestKind;
use tetris_agent::daemon::{DaemonClient, DaemonError};
use tetris_wire::FrameHeader;
use tetris_wire::daemon::{Message, PROTOCOL};

/// Longest wait for an answer.
pub const ANSWER: Duration = Duration::from_secs(30);

/// Path of the daemon's socket in a volume.
pub fn socket(store: &Path) -> PathBuf {
    store.join("daemon")
}

/// Passes a file as the agent does. Returns a word for the outcome.
pub fn pass(store: &Path, file: BorrowedFd<'_>, kind: ManifestKind) -> String {
    match DaemonClient::new(socket(store), ANSWER).ingest(file, kind, |_, _| {}) {
        Ok(ingested) => {
            ingested.done();
            "ingested".to_owned()
        }
        Err(DaemonError::Refused(refusal)) => format!("refused-{}", refusal.reason.0),
        Err(error) if error.is_absent() => "no-daemon".to_owned(),
        Err(_) => "no-answer".to_owned(),
    }
}

/// A connection.
#[derive(Debug)]
pub struct Raw(pub UnixStream);

impl Raw {
    /// Connects.
    ///
    /// # Errors
    /// When no one listens.
    pub fn connect(store: &Path) -> Result<Self> {
        let stream = UnixStream::connect(socket(store))?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        Ok(Self(stream))
    }

    /// Connects and presents itself.
    ///
    /// # Errors
    /// When no one listens, or the server hangs up.
    pub fn greeted(store: &Path) -> Result<Self> {
        let mut raw = Self::connect(store)?;
        raw.0.write_all(&greeting())?;
        raw.0.read_exact(&mut [0; 12])?;
        let answer = raw.receive()?;
        ensure!(matches!(answer, Message::HelloAck { .. }), "{answer:?}");
        Ok(raw)
    }

    /// Sends `bytes`, and `files` with them. A connection that the server ended is no error: it may.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) {
        let raw: Vec<_> = files.iter().map(BorrowedFd::as_raw_fd).collect();
        let rights = [ControlMessage::ScmRights(&raw)];
        let rights = if raw.is_empty() { &[][..] } else { &rights[..] };
        let bytes = [IoSlice::new(bytes)];
        let flags = MsgFlags::MSG_NOSIGNAL;
        let _refused = sendmsg::<()>(self.0.as_fd().as_raw_fd(), &bytes, rights, flags, None);
    }

    /// Sends a request to ingest, with these descriptors.
    pub fn ask_to_ingest(&self, kind: ManifestKind, files: &[BorrowedFd<'_>]) {
        let frame = Message::Ingest { kind }.encode();
        let (header, payload) = frame.split_at(5.min(frame.len()));
        self.send(header, &[]);
        self.send(payload, files);
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// When the server hangs up, or is silent for too long.
    pub fn receive(&mut self) -> Result<Message> {
        let mut header = [0; 5];
        self.0.read_exact(&mut header)?;
        let header = FrameHeader::decode(header)?;
        let mut payload = vec![0; header.len];
        self.0.read_exact(&mut payload)?;
        Ok(Message::decode(header.kind, &payload)?)
    }
}

/// The first bytes of a client.
pub fn greeting() -> Vec<u8> {
    let hello = Message::Hello { pid: 1 }.encode();
    [PROTOCOL.preamble().as_slice(), &hello].concat()
}
