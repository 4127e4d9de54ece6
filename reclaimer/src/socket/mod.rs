//! The socket in a store, through which agents ask for room (LAYOUT.md 11).
//!
//! # Flow
//! [`Socket::bind`] takes the place of a dead daemon's socket, [`Socket::serve`] answers whoever connects. A request for room
//! is handed on as a [`RoomAsk`]; whoever receives it decides and answers.
//!
//! # Guarantees
//! - The socket of a daemon that lives is never replaced.
//! - Memory, descriptors and connections are bounded by [`Limits`], whatever clients do; one user alone cannot use them up.
//! - A client that goes away, stalls or sends garbage ends its own connection only.
//!
//! # Assumptions
//! Who may write in the store's root is honest: only such a user can put another socket there.

mod admission;
mod bind;
mod connection;
mod frames;
mod ingest;
mod serve;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tetris_agent::daemon::{ErrorCode, Refusal};
use tetris_store_layout::StoreError;
use thiserror::Error;
use tokio::sync::oneshot;

pub use bind::Socket;

/// What one client, and all of them, may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time; further ones are closed at once. A connection needs a descriptor and up to 64 KiB.
    pub connections: usize,
    /// Of these, those of one user.
    pub per_user: usize,
    /// Of these, those of all users together who may not ask for room.
    pub strangers: usize,
    /// Of these, those of one such user.
    pub per_stranger: usize,
    /// Longest wait for a client: for its next message as a whole, and for it to take an answer.
    pub idle: Duration,
    /// Longest wait for an answer to a request.
    pub answer: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            per_user: 128,
            strangers: 128,
            per_stranger: 16,
            idle: Duration::from_secs(30),
            answer: Duration::from_secs(30),
        }
    }
}

/// Who is on the other side, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Process; 0 when it is not visible from here.
    pub pid: u32,
}

/// A load waits for room. Its answer is not wanted any more when `reply` is closed.
#[derive(Debug)]
pub struct RoomAsk {
    /// Name of the store.
    pub store: String,
    /// Bytes that should be free; at most the file system's size.
    pub bytes: u64,
    /// Files that it should be possible to make.
    pub inodes: u32,
    /// Who asks: the store's owner or root.
    pub peer: Peer,
    /// Takes the answer. Dropping it tells the client that none will come.
    pub reply: oneshot::Sender<RoomAnswer>,
}

/// The answer to a [`RoomAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomAnswer {
    /// There is room.
    Made {
        /// Bytes that are free now.
        free_bytes: u64,
        /// Bytes that were freed for this request.
        freed_bytes: u64,
    },
    /// There is not enough room. The agent does not reclaim by itself then.
    Refused(Refusal),
}

/// What went wrong with a client. To be counted; a hostile one can cause any number, so not each is worth a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It was one too many, and its connection closed.
    Crowded(Peer),
    /// It may not ask for room, and was told so.
    NotAllowed(Peer),
    /// It sent what is no message, or a message out of turn.
    Protocol(Peer, ErrorCode, String),
    /// It sent nothing for too long, or did not take its answer.
    Stalled(Peer),
    /// Nobody answered its request in time, or at all.
    Unanswered(Peer),
    /// Connections cannot be accepted now, for this reason.
    Accept(String),
}

/// The socket cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Another daemon listens there.
    #[error("`{}` belongs to a daemon that is running; stop that one first", path.display())]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// Something else has the socket's name.
    #[error("`{}` is {found}, expected a socket of uid {expected_uid}; remove it if nothing needs it", path.display())]
    NotOurs {
        /// The path.
        path: PathBuf,
        /// What it is.
        found: String,
        /// The user of this process.
        expected_uid: u32,
    },
    /// Another daemon is about to start or end at this store, or its lock file cannot be written.
    #[error("cannot lock `{}` to change its socket; does another daemon start there, and may this one write?", path.display())]
    Locked {
        /// The store's root.
        path: PathBuf,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was being done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}
