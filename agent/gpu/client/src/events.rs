//! Arrival of a model's objects, as the server reports it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tetris_wire::after;

use super::error::unexpected;
use super::news::{Ended, next};
use super::{Client, ClientError};
use tetris_gpu_protocol::{Kept, Reply, Request};

/// Arrived objects. One thread at a time reads the connection; the others wait for its result.
#[derive(Debug)]
pub(super) struct Events {
    known: Mutex<Known>,
    changed: Condvar,
    timeout: Duration,
}

#[derive(Debug)]
struct Known {
    /// `None` while a thread reads it, and after an error.
    client: Option<Client>,
    arrived: Vec<bool>,
    left: usize,
    ended: Option<Ended>,
}

impl Events {
    pub fn new(client: Client, objects: usize) -> Self {
        let timeout = client.timeout;
        let known = Mutex::new(Known {
            client: Some(client),
            arrived: vec![false; objects],
            left: objects,
            ended: None,
        });
        Self {
            known,
            changed: Condvar::new(),
            timeout,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the object of this index has arrived, or all objects have. Returns false at the
    /// limit.
    pub fn wait(&self, index: Option<usize>, limit: Duration) -> Result<bool, ClientError> {
        let deadline = after(limit);
        let mut known = self.lock();
        loop {
            if known.has(index) {
                return Ok(true);
            }
            if let Some(ended) = &known.ended {
                return Err(ended.error());
            }
            if let Some(client) = known.client.take() {
                drop(known);
                let news = next(&client, deadline);
                known = self.lock();
                let over = matches!(news, Ok(None));
                known.learn(client, news);
                self.changed.notify_all();
                if over {
                    return Ok(known.has(index));
                }
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let waited = self.changed.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Returns true if no message has ended the connection. Waits only for the rest of a message
    /// that has begun.
    pub fn is_alive(&self) -> bool {
        let mut known = self.lock();
        while known.ended.is_none() {
            // Another thread is reading the connection and will record the end.
            let Some(client) = known.client.take() else {
                break;
            };
            drop(known);
            let news = next(&client, Instant::now());
            known = self.lock();
            let over = matches!(news, Ok(None));
            known.learn(client, news);
            self.changed.notify_all();
            if over {
                break;
            }
        }
        known.ended.is_none()
    }

    /// Ends the connection, also for processes that share it.
    pub fn hang_up(&self) {
        if let Some(client) = &self.lock().client {
            client.connection.hang_up();
        }
    }

    /// Sends `Keep`, and waits for its answer. News of arrivals that come before it count.
    pub fn keep(&self, ttft_us: u64, most_bytes: u64) -> Result<Kept, ClientError> {
        let deadline = after(self.timeout);
        let client = self.take(deadline)?;
        let request = Request::Keep {
            ttft_us,
            most_bytes,
        };
        let sent = client.send(&request, deadline);
        if let Err(error) = sent {
            self.lock().learn(client, Err(error));
            self.changed.notify_all();
            return Err(unexpected("the prefix"));
        }
        loop {
            let news = client.reply_with(deadline, "the prefix");
            let mut known = self.lock();
            match news {
                Ok((Reply::Kept(kept), _)) => {
                    known.client = Some(client);
                    self.changed.notify_all();
                    return Ok(kept);
                }
                news => {
                    known.absorb(news.map(|(reply, _)| Some(reply)));
                    if let Some(ended) = known.ended.clone() {
                        known.client = Some(client);
                        self.changed.notify_all();
                        return Err(ended.error());
                    }
                }
            }
        }
    }

    /// Takes the connection from the threads that read it.
    fn take(&self, deadline: Instant) -> Result<Client, ClientError> {
        let mut known = self.lock();
        loop {
            if let Some(ended) = &known.ended {
                return Err(ended.error());
            }
            if let Some(client) = known.client.take() {
                return Ok(client);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ClientError::TimedOut {
                    expected: "another thread to stop reading",
                    limit: self.timeout,
                });
            }
            let waited = self.changed.wait_timeout(known, left);
            known = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Informs the server that the model is unmapped, and waits for its confirmation.
    pub fn release(&self) -> Result<(), ClientError> {
        let client = self.lock().client.take().ok_or(ClientError::Closed)?;
        let deadline = after(self.timeout);
        client.send(&Request::Release, deadline)?;
        loop {
            match client.reply_with(deadline, "the model to be released")?.0 {
                Reply::Released => return Ok(()),
                Reply::Arrived(_) | Reply::Complete => {}
                _ => return Err(unexpected("Released")),
            }
        }
    }
}

impl Known {
    fn has(&self, index: Option<usize>) -> bool {
        match index {
            Some(index) => self.arrived.get(index).copied().unwrap_or(false),
            None => self.left == 0,
        }
    }

    fn learn(&mut self, client: Client, news: Result<Option<Reply>, ClientError>) {
        self.absorb(news);
        // Keeps the connection even after its last message: the server holds the model while it is
        // open.
        self.client = Some(client);
    }

    fn absorb(&mut self, news: Result<Option<Reply>, ClientError>) {
        match news {
            Ok(None) => {}
            Ok(Some(Reply::Arrived(indexes))) => {
                for index in indexes {
                    self.arrive(index);
                }
            }
            Ok(Some(Reply::Complete)) => {
                self.arrived.fill(true);
                self.left = 0;
            }
            Ok(Some(_)) => self.ended = Some(Ended::Broken),
            Err(error) => self.ended = Some(Ended::of(error)),
        }
    }

    fn arrive(&mut self, index: u32) {
        if let Some(arrived) = self.arrived.get_mut(index as usize)
            && !std::mem::replace(arrived, true)
        {
            self.left -= 1;
        }
    }
}
