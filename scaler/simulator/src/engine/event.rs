//! Queue of future events.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::instance::Job;

/// A kind of event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A request for an application.
    Arrival { application: usize },
    /// An instance has loaded.
    Ready { instance: usize },
    /// The batch timeout of an instance's oldest request.
    Waited { instance: usize },
    /// A finished batch.
    Done { instance: usize, jobs: Vec<Job> },
    /// A pass of the scaler.
    Tick,
}

#[derive(Debug, PartialEq, Eq)]
struct Event {
    at_us: u64,
    /// Order of insertion, for events at the same moment.
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

/// Future events, in order.
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
