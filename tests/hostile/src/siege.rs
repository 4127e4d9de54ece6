//! Hostile clients of all kinds at once. Each begins again when the server ends its connection.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::task::JoinSet;

use super::clients::{Client, Connection, Paths};

/// Addresses of hostile clients.
const FROM: [Ipv4Addr; 3] = [
    Ipv4Addr::new(127, 0, 0, 2),
    Ipv4Addr::new(127, 0, 0, 3),
    Ipv4Addr::new(127, 0, 0, 4),
];
/// Pause between two bytes of a slow client.
const PAUSE: Duration = Duration::from_millis(300);
/// Pause before a client begins again.
const AGAIN: Duration = Duration::from_secs(1);

/// Hostile clients, with the number of connections of each.
const CLIENTS: [(Client, usize); 11] = [
    (Client::Heads { fields: 960 }, 24),
    (Client::Heads { fields: 90 }, 60),
    (Client::SlowBody { pause: PAUSE }, 24),
    (Client::WaitingBody, 24),
    (Client::Unread { pause: PAUSE }, 24),
    (Client::ClosedWindow, 24),
    (Client::HalfHead { pause: PAUSE }, 300),
    (Client::RapidReset, 3),
    (Client::Continuations, 3),
    (Client::Pings, 3),
    (Client::Settings, 3),
];

/// Duration of a siege in a run of all tests, in seconds.
const SECONDS: u64 = 6;

/// Duration of a siege: `TETRIS_SIEGE_SECONDS`, or some seconds.
#[must_use]
pub fn duration() -> Duration {
    let seconds = std::env::var("TETRIS_SIEGE_SECONDS").unwrap_or_default();
    Duration::from_secs(seconds.parse().unwrap_or(SECONDS))
}

/// Runs all hostile clients of a server, for ever. `connect` connects from an address to the server.
pub async fn run<S: Connection + 'static, F>(
    server: SocketAddr,
    paths: Paths,
    connect: impl Fn(Ipv4Addr, SocketAddr) -> F + Copy + Send + 'static,
) where
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    let mut tasks = JoinSet::new();
    for (client, count) in CLIENTS {
        for number in 0..count {
            let from = FROM[number % FROM.len()];
            tasks.spawn(async move {
                loop {
                    if let Ok(stream) = connect(from, server).await {
                        // The server may end it at any time.
                        drop(client.attack(paths, stream).await);
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            });
        }
    }
    tasks.join_all().await;
}
