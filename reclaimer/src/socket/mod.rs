//! The socket in a store, through which agents ask for room (LAYOUT.md 11).
//!
//! # Flow
//! [`Socket::bind`] takes the place of a dead daemon's socket, [`Socket::serve`] answers clients. A request for
//! room is handed on as a [`RoomAsk`]; its receiver decides and answers.
//!
//! # Guarantees
//! - The socket of a daemon that lives is never replaced.
//! - [`Limits`] bound memory, descriptors and connections regardless of the clients; one user alone
//!   cannot use them up.
//! - A client that goes away, stalls or sends garbage ends its own connection only.
//!
//! # Assumptions
//! Users who may write in the store's root are honest: only such a user can put another socket
//! there.

mod admission;
mod bind;
mod cold;
mod connection;
mod derived;
mod frames;
mod ingest;
mod model;
mod serve;
mod trace;
mod warm;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tetris_store_layout::StoreError;
use tetris_wire::daemon::{ErrorCode, RoomRefusal};
use tetris_wire::{Peer, TakeoverError};
use thiserror::Error;
use tokio::sync::oneshot;

pub use bind::Socket;

/// Limits of one client, and of all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections; further ones are closed at once. A connection needs a
    /// descriptor and up to 64 KiB.
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

/// A load waits for room. Its answer is not wanted any more when `reply` is closed.
#[derive(Debug)]
pub struct RoomAsk {
    /// Name of the store.
    pub store: String,
    /// Number of bytes that should be free; at most the file system's size.
    pub bytes: u64,
    /// Number of files that it should be possible to make.
    pub inodes: u32,
    /// The client: the store's owner or root.
    pub peer: Peer,
    /// Takes the answer. Dropping it ends the client's wait with an error.
    pub reply: oneshot::Sender<RoomAnswer>,
}

/// The answer to a [`RoomAsk`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoomAnswer {
    /// There is room.
    Made {
        /// Number of bytes that are free now.
        free_bytes: u64,
        /// Number of bytes freed for this request.
        freed_bytes: u64,
    },
    /// There is not enough room. The agent does not reclaim by itself then.
    Refused(RoomRefusal),
}

/// A fault of a client. Counted, not logged: a hostile client can cause any number.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// It was one too many, and its connection closed.
    Crowded(Peer),
    /// It may not ask for room, and was refused with the reason.
    NotAllowed(Peer),
    /// It sent bytes that are no message, or a message out of turn.
    Protocol(Peer, ErrorCode, String),
    /// It sent nothing for too long, or did not take its answer.
    Stalled(Peer),
    /// No one answered its request in time, or at all.
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
    /// The socket's name cannot be taken: another daemon listens there, for example.
    #[error(transparent)]
    Takeover(#[from] TakeoverError),
    /// Another daemon is about to start or end at this store, or its lock file cannot be written.
    #[error("cannot lock `{}` to change its socket; does another daemon start there, and may this one write?", path.display())]
    Locked {
        /// The store's root.
        path: PathBuf,
    },
    /// The runtime cannot wait for connections.
    #[error("cannot listen on `{}`: {source}", path.display())]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}
