//! Host memory that waits for its registration.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use tetris_gpu_device::HostSlice;

/// Number of refusals after which the rest of an owner's memory leaves the queue.
const MAX_REFUSALS: u32 = 3;

/// All memory of an owner that a transfer staged.
#[derive(Debug)]
pub(super) struct Waiting {
    /// All bytes of the owner.
    pub memory: HostSlice,
    /// Number of the transfer.
    pub transfer: u64,
    /// Time of the transfer's end.
    at: Instant,
    /// Number of refusals of its pieces.
    refused: u32,
}

/// Memory that waits, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: VecDeque<Waiting>,
    starts: BTreeSet<usize>,
    bytes: u64,
}

/// Address of the first byte.
fn start(memory: &HostSlice) -> usize {
    memory.bytes().as_ptr() as usize
}

fn len(memory: &HostSlice) -> u64 {
    memory.bytes().len() as u64
}

impl Queue {
    /// Sum of the memory's lengths, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds all bytes of an owner, unless they wait already.
    pub fn push(&mut self, memory: HostSlice, transfer: u64, at: Instant) {
        if self.starts.insert(start(&memory)) {
            self.bytes += len(&memory);
            self.waiting.push_back(Waiting {
                memory,
                transfer,
                at,
                refused: 0,
            });
        }
    }

    /// The oldest.
    pub fn front(&self) -> Option<&Waiting> {
        self.waiting.front()
    }

    /// Removes the oldest.
    pub fn pop(&mut self) -> Option<Waiting> {
        let first = self.waiting.pop_front()?;
        self.starts.remove(&start(&first.memory));
        self.bytes -= len(&first.memory);
        Some(first)
    }

    /// Records a refusal of the oldest. It goes to the end, or leaves after too many.
    pub fn refuse(&mut self) {
        let Some(mut first) = self.pop() else {
            return;
        };
        first.refused += 1;
        if first.refused < MAX_REFUSALS {
            self.starts.insert(start(&first.memory));
            self.bytes += len(&first.memory);
            self.waiting.push_back(first);
        }
    }

    /// Removes all bytes of the owner that begin at this address.
    pub fn remove(&mut self, from: usize) -> Option<Waiting> {
        if !self.starts.remove(&from) {
            return None;
        }
        let mut waiting = self.waiting.iter();
        let at = waiting.position(|entry| start(&entry.memory) == from)?;
        let removed = self.waiting.remove(at)?;
        self.bytes -= len(&removed.memory);
        Some(removed)
    }

    /// Age of the oldest.
    pub fn age(&self) -> Option<Duration> {
        self.waiting.front().map(|first| first.at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn memory_waits_once_until_it_leaves() {
        let memory = |len| HostSlice::whole(Arc::new(vec![0; len]));
        let (one, other) = (memory(10), memory(20));
        let (mut queue, now) = (Queue::default(), Instant::now());
        assert!(queue.age().is_none());
        for memory in [&one, &other, &one] {
            queue.push(memory.clone(), 1, now);
        }
        assert_eq!(queue.bytes(), 30);
        assert!(queue.age().is_some());
        for _ in 0..2 {
            queue.refuse();
            assert_eq!(
                (queue.front().unwrap().memory.bytes().len(), queue.bytes()),
                (20, 30)
            );
            queue.refuse();
            assert_eq!(
                (queue.front().unwrap().memory.bytes().len(), queue.bytes()),
                (10, 30)
            );
        }
        queue.refuse();
        assert_eq!(queue.bytes(), 20, "refused for the third time");
        assert!(queue.remove(start(&one)).is_none());
        assert_eq!(
            queue.remove(start(&other)).unwrap().memory.bytes().len(),
            20
        );
        assert!(queue.pop().is_none());
        assert_eq!(queue.bytes(), 0);
    }
}
