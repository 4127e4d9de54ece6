//! A model on a device that this process holds and does not map.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_wire::after;

use super::news::{Ended, next};
use super::{Client, ClientError, Waiting, Wanted};
use tetris_gpu_device::DeviceUuid;
use tetris_gpu_protocol::{Reply, Request};

/// A model on a device, or on its way there. The server holds it for this process until this value
/// is dropped.
#[derive(Debug)]
pub struct Prefetched {
    device: DeviceUuid,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    client: Client,
    bytes_left: u64,
    is_complete: bool,
    ended: Option<Ended>,
}

impl Client {
    /// Requests that a model is on a device, or on the one that the server chooses, and holds it
    /// there. Returns when the server has admitted it, while its bytes may still be on their way.
    /// Calls `waiting` while there is no room for it, as [`Self::acquire`] does. This process gets
    /// no access to the memory.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the server refuses the model or does not answer in time;
    /// [`ClientError::TooOld`] if it does not know the request.
    pub fn prefetch(
        self,
        on: Option<DeviceUuid>,
        wanted: &Wanted,
        waiting: &mut dyn FnMut(Waiting),
    ) -> Result<Prefetched, ClientError> {
        self.request(on, wanted, Request::Prefetch, after(self.timeout))?;
        let room_by = after(wanted.wait.saturating_add(self.timeout));
        let admitted = self.admitted(room_by, waiting);
        let admitted = admitted.map_err(|error| error.of_new("Prefetch"))?;
        let inside = Inside {
            client: self,
            bytes_left: admitted.copy_bytes,
            is_complete: false,
            ended: None,
        };
        Ok(Prefetched {
            device: admitted.device,
            inside: Mutex::new(inside),
        })
    }
}

impl Prefetched {
    /// The model's device.
    pub fn device(&self) -> DeviceUuid {
        self.device
    }

    /// Length of the objects that have not arrived, in bytes, by the latest message.
    pub fn bytes_left(&self) -> u64 {
        self.lock().bytes_left
    }

    /// Waits at most `limit` until the whole model is on the device; returns false at the limit.
    /// Other threads that call this value's functions wait meanwhile.
    ///
    /// # Errors
    ///
    /// [`ClientError`] if the server does not hold the model any more.
    pub fn wait(&self, limit: Duration) -> Result<bool, ClientError> {
        let deadline = after(limit);
        let mut inside = self.lock();
        loop {
            if let Some(ended) = &inside.ended {
                return Err(ended.error());
            }
            // A complete model may have been damaged since.
            let by = if inside.is_complete {
                Instant::now()
            } else {
                deadline
            };
            let news = next(&inside.client, by);
            if matches!(news, Ok(None)) {
                return Ok(inside.is_complete);
            }
            inside.learn(news);
        }
    }

    /// Ends the connection, also for processes that share it. The server may evict the model then.
    pub fn hang_up(self) {
        let inside = self.inside.into_inner();
        let inside = inside.unwrap_or_else(PoisonError::into_inner);
        inside.client.connection.hang_up();
    }

    fn lock(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inside {
    fn learn(&mut self, news: Result<Option<Reply>, ClientError>) {
        match news {
            Ok(None) => {}
            Ok(Some(Reply::Progress(bytes_left))) => self.bytes_left = bytes_left,
            Ok(Some(Reply::Complete)) => {
                self.is_complete = true;
                self.bytes_left = 0;
            }
            Ok(Some(_)) => self.ended = Some(Ended::Broken),
            Err(error) => self.ended = Some(Ended::of(error)),
        }
    }
}
