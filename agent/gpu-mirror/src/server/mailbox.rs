//! What a connection's thread is told by others.

use std::sync::{Mutex, PoisonError};

use crate::protocol::Reason;
use crate::wire::Bell;

/// News for a connection's thread. Bounded: each object of a model arrives once.
#[derive(Debug, Default)]
pub(super) struct Post {
    /// Objects that have arrived, by index.
    pub arrived: Vec<u32>,
    /// All of them have.
    pub complete: bool,
    /// The model is not held any more, and why.
    pub failed: Option<(Reason, String)>,
}

/// Where others leave news for a connection's thread.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// Rings when there is news, or something changed that the thread should look at.
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

    /// All news. What comes later rings again.
    pub fn take(&self) -> Post {
        self.bell.hush();
        std::mem::take(&mut *self.post.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
