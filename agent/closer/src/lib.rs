//! Closes descriptors that other processes passed, where nobody waits.
//!
//! The last close of a descriptor happens in the process that holds it last, whoever made it, and may wait: a socket with SO_LINGER and a
//! full send buffer for as long as its maker says, a file of a network or FUSE file system for its server, a large memory file for its pages.
//! Descriptors that lie unread in a stream's queue are closed by the thread that closes the stream.
//!
//! # Flow
//! A [`Closer`] takes values of any kind and drops them in threads of its own. An [`Aside`] is a value that goes to a closer whenever
//! and wherever it is dropped. [`receive`] reads a stream and takes every descriptor that comes with a message, so that the kernel drops none
//! in the thread that reads.
//!
//! # Guarantees
//! - [`Closer::close`] and the drop of an [`Aside`] never wait for a close.
//! - A closer has at most as many threads as it was made with, and none when there is nothing to do.
//! - A wait that a signal ends, as that of every kind of socket, is ended after [`PATIENCE`].
//!
//! # Caveats
//! What waits to be closed stays open: who hands over bounds how much that is, by what it lets a value keep until it is closed. A wait that only
//! the death of the process ends keeps its thread.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod aside;
mod closer;
mod receive;

pub use aside::Aside;
pub use closer::{Closer, PATIENCE};
pub use receive::{MAX_DESCRIPTORS, Received, receive};
