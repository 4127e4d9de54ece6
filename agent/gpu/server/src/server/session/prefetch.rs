//! A model held on a device for a client that does not map it.

use std::time::{Duration, Instant};

use super::lease::Lease;
use super::{Ended, Session};
use crate::server::mailbox::Post;
use crate::server::state::Held;
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::{Reply, Request};

/// Shortest time between two messages about the bytes that are left.
const TELL: Duration = Duration::from_millis(50);

impl<D: DeviceMemory> Session<D> {
    /// Holds the model, and reports its progress until the client releases it.
    pub(super) fn hold(&self, lease: Lease<D>) -> Result<(), Ended> {
        let last = self.tell_progress(lease.held())?;
        // Ended before the client is notified.
        drop(lease);
        self.reply(&last)
    }

    /// Reports progress. Returns the last message to the client.
    fn tell_progress(&self, held: &Held) -> Result<Reply, Ended> {
        self.reply(&Reply::Granted {
            device: held.device,
            chunks: 0,
            objects: 0,
            copy_bytes: held.copy_bytes,
        })?;
        let mut told = Instant::now();
        let (mut is_complete, mut is_news) = (false, false);
        loop {
            let news = self.mailbox.take();
            if let Some(last) = end(&news) {
                return Ok(last);
            }
            if news.complete && !is_complete {
                is_complete = true;
                self.reply(&Reply::Complete)?;
            }
            is_news |= !news.arrived.is_empty();
            if is_news && !is_complete && told.elapsed() >= TELL {
                (told, is_news) = (Instant::now(), false);
                let left = self.core.state().bytes_left(held);
                self.reply(&Reply::Progress(left))?;
            }
            let again = (is_news && !is_complete).then(|| told + TELL);
            match self.listen(again)? {
                None => {}
                Some(Request::Release) => return Ok(Reply::Released),
                Some(Request::Status) => self.reply(&self.status())?,
                Some(_) => {
                    let expected = "Release or Status while a model is held";
                    return Err(Ended::OutOfTurn { expected });
                }
            }
        }
    }
}

fn end(news: &Post) -> Option<Reply> {
    let (reason, text) = news.failed.clone()?;
    Some(Reply::Failed { reason, text })
}
