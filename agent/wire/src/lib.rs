//! Sockets between processes of a node, of which either side may be hostile.
//!
//! The protocol of the node daemon (LAYOUT.md 11, messages in [`daemon`]) and that of the GPU
//! mirror (`agent/gpu/PROTOCOL.md`) are built on it: a preamble, then frames, some with
//! descriptors.
//!
//! | part | contents | I/O |
//! |---|---|---|
//! | [`Protocol`], [`FrameHeader`], [`Reader`], [`Writer`] | preambles, headers, fields of payloads | none |
//! | [`FrameDecoder`], [`PreambleDecoder`] | bytes to frames, for any transport | none |
//! | [`daemon`] | messages of the node daemon's protocol | none |
//! | [`Connection`] | frames over a blocking transport, each by a deadline | yes |
//! | [`receive`] | one read, with every descriptor that comes with it | yes |
//! | [`connect`], [`Address`] | reaching a socket, however long its path | yes |
//! | [`BoundSocket`] | taking over the name of a socket whose owner is gone | yes |
//! | [`Peer`] | user, group and process of the other side, from the kernel | yes |
//! | [`Closer`], [`Aside`] | closing in other threads | yes |
//! | [`Bell`], [`is_readable`] | waits with wake-ups | yes |
//!
//! # Closing aside
//! The last close of a descriptor happens in the process that holds it last, regardless of its
//! maker, and may wait: a socket with SO_LINGER and a full send buffer for as long as its maker
//! says, a file of a network or FUSE file system for its server, a large memory file for its pages.
//! The thread that closes a stream also closes the descriptors that lie unread in its queue.
//!
//! A [`Closer`] takes values of any kind and drops them in its own threads. An [`Aside`] is a
//! value that goes to a closer at its drop. [`receive`] reads a stream and takes every descriptor
//! that comes with a message, so that the kernel closes none in the reading thread.
//!
//! # Guarantees
//! - No read or write of a [`Connection`] waits beyond its deadline. A deadline holds for a whole
//!   frame.
//! - Hostile bytes are errors: nothing here panics, and no allocation exceeds a frame's 64 KiB.
//! - [`Closer::close`] and the drop of an [`Aside`] never wait for a close.
//! - A closer has at most as many threads as it was made with, and none when there is nothing to
//!   do.
//! - A closer ends a wait that a signal can end, as that of every kind of socket, after
//!   [`PATIENCE`].
//!
//! # Caveats
//! Values that wait to be closed stay open: the caller bounds their number by the permits that a
//! value keeps until it is closed. A wait that only the death of the process ends keeps its thread.

#![forbid(unsafe_code)]
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod address;
mod aside;
mod closer;
mod connect;
mod connection;
pub mod daemon;
mod decoder;
mod descriptors;
mod error;
mod fields;
mod frame;
mod limits;
mod peer;
mod process;
mod protocol;
mod takeover;
mod wait;

#[cfg(test)]
mod tests;

pub use address::Address;
pub use aside::Aside;
pub use closer::{Closer, PATIENCE};
pub use connect::{ConnectError, connect};
pub use connection::{Connection, after};
pub use decoder::{Decode, FrameDecoder, PreambleDecoder};
pub use descriptors::{MAX_DESCRIPTORS, Received, pass, receive};
pub use error::{ProtocolError, WireError};
pub use fields::{Reader, Writer};
pub use frame::{FRAME_HEADER_BYTES, Frame, FrameHeader, no_descriptors};
pub use limits::{MAX_FRAME_BYTES, MAX_TEXT_BYTES};
pub use peer::Peer;
pub use process::PeerProcess;
pub use protocol::{PREAMBLE_BYTES, Protocol};
pub use takeover::{BoundSocket, Listening, TakeoverError, listening};
pub use wait::{Bell, Ready, is_readable};
