//! Accepting clients.

use std::future::Future;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::admission::Admission;
use super::bind::Socket;
use super::connection::{Client, OnFault};
use super::frames::Frames;
use super::{Fault, Limits, Peer, RoomAsk};
use crate::ingest::Target;

/// Pause after a connection could not be accepted: the process has no descriptor left, and asking again at once does not
/// give it one.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

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
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => server.admit(&self, stream, &mut clients),
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

    /// Who may have room made: whoever could reclaim by himself.
    fn may_ask(&self, uid: u32) -> bool {
        let owner = std::fs::metadata(self.store.objects_dir()).map(|folder| folder.uid());
        !self.readers_only && (uid == 0 || owner.is_ok_and(|owner| owner == uid))
    }
}

struct Server {
    admission: Arc<Admission>,
    on_fault: OnFault,
    room: mpsc::Sender<RoomAsk>,
    limits: Limits,
}

impl Server {
    /// Starts to talk with a client, or hangs up when it is one too many.
    fn admit(&self, socket: &Socket, stream: UnixStream, clients: &mut JoinSet<()>) {
        let Ok(peer) = peer_of(&stream) else {
            return;
        };
        let allowed = socket.may_ask(peer.uid);
        let stranger = !allowed && !socket.readers_only;
        let Some(slot) = self.admission.admit(peer.uid, stranger, &self.limits) else {
            return (self.on_fault)(Fault::Crowded(peer));
        };
        let client = Client {
            peer,
            allowed,
            usage: socket.store.usage().ok(),
            room: self.room.clone(),
            answer: self.limits.answer,
            on_fault: Arc::clone(&self.on_fault),
            broker: socket.broker.clone(),
            target: Target {
                name: socket.name.clone(),
                store: Arc::clone(&socket.store),
            },
            slot: Arc::new(slot),
        };
        let frames = Frames::new(stream, self.limits.idle);
        clients.spawn(client.talk(frames));
    }
}

/// Who connected (SO_PEERCRED).
fn peer_of(stream: &UnixStream) -> std::io::Result<Peer> {
    let cred = stream.peer_cred()?;
    Ok(Peer {
        uid: cred.uid(),
        gid: cred.gid(),
        pid: cred.pid().and_then(|pid| pid.try_into().ok()).unwrap_or(0),
    })
}
