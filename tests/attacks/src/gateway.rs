//! Attacks on a gateway, by clients of its port.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Result;
use clap::ValueEnum;
use tetris_hostile::clients::{Client, Paths, connect};
use tokio::runtime::{Builder, Runtime};

use crate::line::{End, Line, Tally};

/// Names of functions.
#[derive(Debug, Clone, Copy)]
pub struct Functions {
    /// The function whose clients are to suffer.
    pub victim: &'static str,
    /// A function whose answers do not end.
    pub flood: &'static str,
    /// A function without instances.
    pub zero: &'static str,
}

/// Functions that the gateway must have.
pub const FUNCTIONS: Functions = Functions {
    victim: "victim",
    flood: "flood",
    zero: "zero",
};
/// Their paths.
const PATHS: Paths = Paths {
    victim: "/functions/victim/x",
    flood: "/functions/flood/x",
    waiting: "/functions/zero/x",
};
/// Addresses of the clients, where the gateway is on this machine.
const FROM: [Ipv4Addr; 3] = [
    Ipv4Addr::new(127, 0, 0, 2),
    Ipv4Addr::new(127, 0, 0, 3),
    Ipv4Addr::new(127, 0, 0, 4),
];
/// Pause before a client begins again.
const AGAIN: Duration = Duration::from_secs(1);
/// Duration of a round.
const ROUND: Duration = Duration::from_secs(1);
/// Pause between two bytes of a body.
const BODY_PAUSE: Duration = Duration::from_secs(12);
/// Pause between two looks at a connection.
const LOOK: Duration = Duration::from_secs(1);

/// An attack on a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum GatewayAttack {
    /// 60 connections by HTTP/2 of 256 open requests with 960 indexed fields, and 60 of as many fields as are allowed
    Heads,
    /// 32 bodies of 8 MiB that lack 100 bytes, of which one comes each 12 s, and 32 whole ones for a function at zero
    Uploads,
    /// 32 connections by HTTP/2 without a window, and 32 by HTTP/1 that read nothing, of answers without an end
    Windows,
}

/// A kind of client, and the number of its connections.
struct Kind {
    name: &'static str,
    client: Client,
    connections: usize,
}

/// Counts of the connections of a kind.
#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
    refused: AtomicU64,
}

impl GatewayAttack {
    /// Name on the command line.
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn kinds(self) -> [Kind; 2] {
        let kind = |name, client, connections| Kind {
            name,
            client,
            connections,
        };
        match self {
            Self::Heads => [
                kind("many-fields", Client::Heads { fields: 960 }, 60),
                kind("allowed-fields", Client::Heads { fields: 90 }, 60),
            ],
            Self::Uploads => {
                let pause = BODY_PAUSE;
                [
                    kind("slow-body", Client::SlowBody { pause }, 32),
                    kind("waiting-body", Client::WaitingBody, 32),
                ]
            }
            Self::Windows => [
                kind("closed-window", Client::ClosedWindow, 32),
                kind("unread", Client::Unread { pause: LOOK }, 32),
            ],
        }
    }

    /// Attacks the gateway until the end. A round reports how many connections were begun, ended by the gateway, and
    /// refused.
    ///
    /// # Errors
    /// When there is no thread for it, or no one reads the lines.
    pub fn run(self, gateway: SocketAddr, end: &End) -> Result<()> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let kinds = self
            .kinds()
            .map(|kind| (kind.name, begin(&runtime, &kind, gateway)));
        for round in 1.. {
            let has_ended = end.wait(ROUND);
            let mut tally = Tally::default();
            for (name, counts) in &kinds {
                let taken = |count: &AtomicU64| count.swap(0, Ordering::Relaxed);
                tally.add(format!("{name}-begun"), taken(&counts.begun));
                tally.add(format!("{name}-ended"), taken(&counts.ended));
                tally.add(format!("{name}-refused"), taken(&counts.refused));
            }
            Line::Round {
                attack: self.name(),
                round,
                counts: tally.take(),
            }
            .say()?;
            if has_ended {
                break;
            }
        }
        runtime.shutdown_background();
        Ok(())
    }
}

/// Begins all connections of a kind. Each begins again when the gateway ends it.
fn begin(runtime: &Runtime, kind: &Kind, gateway: SocketAddr) -> Arc<Counts> {
    let counts = Arc::new(Counts::default());
    for from in FROM.iter().cycle().take(kind.connections) {
        let from = if gateway.ip().is_loopback() {
            *from
        } else {
            Ipv4Addr::UNSPECIFIED
        };
        let (client, counts) = (kind.client, Arc::clone(&counts));
        runtime.spawn(async move {
            loop {
                match connect(from, gateway).await {
                    Ok(stream) => {
                        counts.begun.fetch_add(1, Ordering::Relaxed);
                        // The gateway may end it in any way.
                        drop(client.attack(PATHS, stream).await);
                        counts.ended.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(_) => {
                        counts.refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
                tokio::time::sleep(AGAIN).await;
            }
        });
    }
    counts
}
