//! What happens next.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::instance::Job;

/// Something that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A request for an application.
    Arrival { application: usize },
    /// An instance has loaded.
    Ready { instance: usize },
    /// The oldest request of an instance has waited long enough for its batch to fill.
    Waited { instance: usize },
    /// A batch is done.
    Done { instance: usize, jobs: Vec<Job> },
    /// The scaler looks.
    Tick,
}

#[derive(Debug, PartialEq, Eq)]
struct Event {
    at_us: u64,
    /// Of the same moment, what was foreseen first comes first.
    number: u64,
    what: What,
}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_us, self.number).cmp(&(other.at_us, other.number))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What is foreseen, in order.
#[derive(Debug, Default)]
pub(super) struct Events {
    heap: BinaryHeap<Reverse<Event>>,
    count: u64,
}

impl Events {
    pub(super) fn push(&mut self, at_us: u64, what: What) {
        let number = self.count;
        self.count += 1;
        self.heap.push(Reverse(Event {
            at_us,
            number,
            what,
        }));
    }

    pub(super) fn pop(&mut self) -> Option<(u64, What)> {
        self.heap
            .pop()
            .map(|Reverse(event)| (event.at_us, event.what))
    }
}
