//! Accepting clients.

use std::future::Future;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use tetris_wire::{Aside, Peer};
use tokio::net::UnixStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

use super::admission::Admission;
use super::bind::Socket;
use super::connection::{Client, OnFault};
use super::frames::Frames;
use super::{Fault, Limits, RoomAsk};
use crate::ingest::TargetStore;

/// Pause after a connection could not be accepted: the process has no descriptor left, and asking
/// again at once does not give it one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Maximum number of refused connections that are not closed yet. At this number none is taken:
/// clients wait in the listener's queue.
const REFUSED: usize = 64;

impl Socket {
    /// Answers clients until `stop` is ready, then hangs up on them and removes the socket's name.
    ///
    /// Requests go to `room`, one at a time per connection; when it is full they wait there, within
    /// [`Limits::answer`]. `on_fault` is called on the runtime's threads and should return soon.
    pub async fn serve(
        self,
        room: mpsc::Sender<RoomAsk>,
        limits: Limits,
        on_fault: impl Fn(Fault) + Send + Sync + 'static,
        stop: impl Future<Output = ()> + Send,
    ) {
        let server = Server {
            admission: Arc::default(),
            refused: Arc::new(Semaphore::new(REFUSED)),
            on_fault: Arc::new(on_fault),
            room,
            limits,
        };
        let mut clients = JoinSet::new();
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_ended) = clients.join_next() => {}
                accepted = server.accept(&self) => match accepted {
                    Ok((stream, refused)) => server.admit(&self, stream, refused, &mut clients),
                    Err(error) => {
                        (server.on_fault)(Fault::Accept(error.to_string()));
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                }
            }
        }
        clients.shutdown().await;
        // Waits for a lock, if another daemon starts just now.
        let _removed = tokio::task::spawn_blocking(move || drop(self)).await;
    }

    /// Returns true if the user may have room made: root, and the owner, who could reclaim by
    /// himself.
    fn may_ask(&self, uid: u32) -> bool {
        let owner = std::fs::metadata(self.store.objects_dir()).map(|folder| folder.uid());
        !self.readers_only && (uid == 0 || owner.is_ok_and(|owner| owner == uid))
    }
}

struct Server {
    admission: Arc<Admission>,
    refused: Arc<Semaphore>,
    on_fault: OnFault,
    room: mpsc::Sender<RoomAsk>,
    limits: Limits,
}

impl Server {
    /// The next connection, and a permit to refuse it.
    async fn accept(
        &self,
        socket: &Socket,
    ) -> io::Result<(Aside<UnixStream>, OwnedSemaphorePermit)> {
        let refused = Arc::clone(&self.refused).acquire_owned().await;
        let refused = refused.map_err(io::Error::other)?;
        let (stream, _) = socket.listener.accept().await?;
        Ok((Aside::new(stream, &socket.intake.closer), refused))
    }

    /// Starts to talk with a client, or hangs up when it is one too many.
    fn admit(
        &self,
        socket: &Socket,
        mut stream: Aside<UnixStream>,
        refused: OwnedSemaphorePermit,
        clients: &mut JoinSet<()>,
    ) {
        let peer = Peer::of(&*stream);
        let admitted = peer.map(|peer| {
            let allowed = socket.may_ask(peer.uid);
            let stranger = !allowed && !socket.readers_only;
            let slot = self.admission.admit(peer.uid, stranger, &self.limits);
            (peer, allowed, slot)
        });
        let (peer, allowed, slot) = match admitted {
            Ok((peer, allowed, Some(slot))) => (peer, allowed, slot),
            not_admitted => {
                stream.keep(refused);
                if let Ok((peer, ..)) = not_admitted {
                    (self.on_fault)(Fault::Crowded(peer));
                }
                return;
            }
        };
        let idle = self.limits.idle;
        let frames = Frames::new(stream, idle, socket.intake.clone(), Arc::new(slot));
        let client = Client {
            peer,
            is_pod: socket.readers_only,
            allowed,
            usage: socket.store.usage().ok(),
            room: self.room.clone(),
            answer: self.limits.answer,
            on_fault: Arc::clone(&self.on_fault),
            broker: socket.broker.clone(),
            status: socket.status.clone(),
            models: socket.models.clone(),
            cold: socket.cold.clone(),
            target: TargetStore {
                name: socket.name.clone(),
                store: Arc::clone(&socket.store),
            },
        };
        clients.spawn(client.talk(frames));
    }
}
