//! Mailbox of a connection's thread.

use std::sync::{Mutex, PoisonError};

use tetris_wire::Bell;

use tetris_gpu_protocol::Reason;

/// News for a connection's thread. Bounded: each object of a model arrives once.
#[derive(Debug, Default)]
pub(super) struct Post {
    /// Objects that have arrived, by index.
    pub arrived: Vec<u32>,
    /// True if every object has arrived.
    pub complete: bool,
    /// The reason the server no longer holds the model.
    pub failed: Option<(Reason, String)>,
}

/// Mailbox in which other threads leave news for a connection's thread.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// Rings for news, and for other changes that the thread must check.
    pub bell: Bell,
    post: Mutex<Post>,
}

impl Mailbox {
    pub fn new() -> std::io::Result<Self> {
        let (bell, post) = (Bell::new()?, Mutex::default());
        Ok(Self { bell, post })
    }

    /// Leaves news.
    pub fn leave(&self, news: impl FnOnce(&mut Post)) {
        news(&mut self.post.lock().unwrap_or_else(PoisonError::into_inner));
        self.bell.ring();
    }

    /// Takes all news. Later news rings again.
    pub fn take(&self) -> Post {
        self.bell.hush();
        std::mem::take(&mut *self.post.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
