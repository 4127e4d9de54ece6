//! The global queue, in the order of arrivals.

use std::collections::VecDeque;

use crate::id::RequestId;

use super::request::GpuRequest;

/// A request in the global queue.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The request.
    pub request: GpuRequest,
    /// Number of requests that came later and were dispatched before.
    pub overtaken: u32,
}

/// Requests that wait for any GPU, in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct GlobalQueue {
    waiting: VecDeque<Waiting>,
}

impl GlobalQueue {
    pub(crate) fn push(&mut self, request: GpuRequest, overtaken: u32) {
        let after = (request.arrived_us, request.id);
        let at = self
            .waiting
            .partition_point(|entry| (entry.request.arrived_us, entry.request.id) <= after);
        self.waiting.insert(at, Waiting { request, overtaken });
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the request at this place.
    pub fn get(&self, at: usize) -> Option<&Waiting> {
        self.waiting.get(at)
    }

    /// Returns the requests, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.iter()
    }

    /// Takes the request at this place; those before it have been overtaken once more.
    pub fn take(&mut self, at: usize) -> Option<Waiting> {
        let taken = self.waiting.remove(at)?;
        for entry in self.waiting.iter_mut().take(at) {
            entry.overtaken = entry.overtaken.saturating_add(1);
        }
        Some(taken)
    }

    /// Takes the request with this number, if it is here; no one is overtaken.
    pub(crate) fn remove(&mut self, id: RequestId) -> Option<Waiting> {
        let at = self
            .waiting
            .iter()
            .position(|entry| entry.request.id == id)?;
        self.drop_at(at)
    }

    /// Takes a request that is not dispatched; no one is overtaken.
    pub(crate) fn drop_at(&mut self, at: usize) -> Option<Waiting> {
        self.waiting.remove(at)
    }
}
