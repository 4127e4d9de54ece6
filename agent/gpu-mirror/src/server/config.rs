//! The server's numbers.

use std::time::Duration;

use super::ServerError;
use crate::copy::ExecutorConfig;
use crate::residency;

/// Models that take turns on a device come back within seconds; a store that needs the room sooner gets it ([`super::Server::unpin`]).
pub const DEFAULT_KEEP_PINNED: Duration = Duration::from_mins(1);

/// What clients may take of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one user to one tenant's socket.
    pub connections_of_user: usize,
    /// Time for a message as a whole, for a client to take an answer, and for a connection without a model to say something.
    pub message_timeout: Duration,
    /// Longest wait for room, whatever a client asks for.
    pub longest_wait: Duration,
    /// How often a client that waits is told so.
    pub keepalive: Duration,
}

impl Default for Limits {
    /// A process has a connection for each 16 files of its model, so 64 processes of one user that each load 30 files, and load a second
    /// time before the first model has gone, have 256. Four such users, or one in each of four stores, make 1,024; each is a
    /// thread, two descriptors and at most a frame of 64 KiB.
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_of_user: 256,
            message_timeout: Duration::from_secs(30),
            longest_wait: Duration::from_mins(5),
            keepalive: Duration::from_secs(1),
        }
    }
}

impl Limits {
    pub(super) fn check(&self) -> Result<(), ServerError> {
        let count = |limit: usize| limit > 0 && limit <= 65_536;
        let time = |limit: Duration| !limit.is_zero() && limit <= Duration::from_hours(24);
        let rules = [
            (count(self.connections), "1 to 65536 connections"),
            (
                count(self.connections_of_user),
                "1 to 65536 connections of a user",
            ),
            (
                time(self.message_timeout),
                "a timeout for messages of at most a day",
            ),
            (time(self.longest_wait), "a longest wait of at most a day"),
            (time(self.keepalive), "a keepalive of at most a day"),
        ];
        let broken = rules.into_iter().find(|(fine, _)| !fine);
        broken.map_or(Ok(()), |(_, expected)| {
            Err(ServerError::Limits { expected })
        })
    }
}

/// All numbers of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerConfig {
    /// What is kept on devices.
    pub residency: residency::Config,
    /// How copies are made.
    pub executor: ExecutorConfig,
    /// What clients may take.
    pub limits: Limits,
    /// How long the store's pages stay registered with the driver after their last use, and so referenced. Zero: until the load ends.
    pub keep_pinned: Duration,
    /// Where a device registers no read-only pages: open objects for writing and make their pages writable while the driver registers
    /// them. Nothing is written. Otherwise copies to such a device go through pinned buffers.
    pub writable_registration: bool,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            residency: residency::Config::default(),
            executor: ExecutorConfig::default(),
            limits: Limits::default(),
            keep_pinned: DEFAULT_KEEP_PINNED,
            writable_registration: true,
        }
    }
}
