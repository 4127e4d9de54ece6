//! Descriptors of mounts, passed from `volumes` to `broker`, over a Unix socket beside the broker's.
//!
//! A connection has one order: a message of JSON with one descriptor, and its answer. Only root is heard.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tetris_wire::{Peer, connect, pass, receive};
use tokio::io::{AsyncWriteExt as _, Interest};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;

use super::{KeptModels, ModelQuestion};

/// Most bytes of a message.
const MESSAGE: usize = 4096;
/// Longest wait for the other side, beyond what a keeper may take.
const WAIT: Duration = Duration::from_secs(10);
/// Most connections at once.
const CONNECTIONS: usize = 64;
/// Pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An order to have a mount of a model answered for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MountOrder {
    /// The model.
    #[serde(flatten)]
    pub model: ModelQuestion,
    /// Number of the mount; not 0.
    pub mount: u64,
}

/// Answer to a [`MountOrder`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum MountAnswer {
    /// A pod answers for the mount.
    Taken,
    /// None does.
    Refused {
        /// The reason.
        reason: String,
    },
}

/// Passes a mount's descriptor to the broker that listens at `socket`, and waits for its answer. Blocks.
///
/// # Errors
/// When the broker cannot be reached, or does not answer in time.
pub fn order_mount(
    socket: &Path,
    order: &MountOrder,
    device: impl AsFd,
) -> io::Result<MountAnswer> {
    let deadline = Instant::now() + WAIT;
    let stream = connect(socket, deadline).map_err(io::Error::other)?;
    let message = serde_json::to_vec(order)?;
    let sent = pass(&stream, &message, &[device.as_fd()])?;
    if sent != message.len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let answer = read_answer(&stream)?;
    Ok(serde_json::from_slice(&answer)?)
}

fn read_answer(stream: &BlockingStream) -> io::Result<Vec<u8>> {
    use std::io::Read as _;
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(WAIT))?;
    let mut answer = Vec::new();
    let limit = MESSAGE as u64;
    stream.take(limit).read_to_end(&mut answer)?;
    Ok(answer)
}

/// Takes orders until `stop` is ready.
pub async fn serve_mounts(
    listener: UnixListener,
    models: KeptModels,
    stop: impl Future<Output = ()> + Send,
) {
    let mut clients = JoinSet::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => break,
            Some(_ended) = clients.join_next() => {}
            accepted = listener.accept(), if clients.len() < CONNECTIONS => match accepted {
                Ok((stream, _)) => {
                    clients.spawn(answer(stream, models.clone()));
                }
                Err(error) => {
                    tracing::warn!(%error, "mounts of models cannot be taken now");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
    clients.shutdown().await;
}

async fn answer(mut stream: UnixStream, models: KeptModels) {
    let peer = Peer::of(&stream).map(|peer| peer.uid);
    if !matches!(peer, Ok(0)) {
        tracing::warn!(uid = ?peer.ok(), "only root has models mounted");
        return;
    }
    let taken = tokio::time::timeout(WAIT, async {
        let (order, device) = match order(&stream).await {
            Ok(order) => order,
            Err(error) => return Err(error.to_string()),
        };
        let Some(key) = order.model.key().filter(|_| order.mount > 0) else {
            return Err(format!(
                "expected a model and a mount of it, found {order:?}"
            ));
        };
        let mounted = models.mount(&key, order.mount, device).await;
        mounted.map_err(|error| error.to_string())
    });
    let answer = match taken.await {
        Ok(Ok(())) => MountAnswer::Taken,
        Ok(Err(reason)) => MountAnswer::Refused { reason },
        Err(_) => MountAnswer::Refused {
            reason: "the order did not arrive in time".to_owned(),
        },
    };
    let Ok(answer) = serde_json::to_vec(&answer) else {
        return;
    };
    if let Err(error) = stream.write_all(&answer).await {
        tracing::debug!(%error, "no one waits for the answer to a mount");
    }
}

/// The order of a connection, and its descriptor.
async fn order(stream: &UnixStream) -> io::Result<(MountOrder, OwnedFd)> {
    let mut bytes = [0; MESSAGE];
    let read = || Ok(receive(stream, &mut bytes)?);
    let mut received = stream.async_io(Interest::READABLE, read).await?;
    let count = received.descriptors.len();
    let (Some(device), 1) = (received.descriptors.pop(), count) else {
        let message = format!("an order has one descriptor, found {count}");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    };
    let text = bytes.get(..received.bytes).unwrap_or_default();
    Ok((serde_json::from_slice(text)?, device))
}
