//! Queue of future events.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

#[derive(Debug)]
struct Event<W> {
    at_us: u64,
    /// Order of insertion, for events at the same moment.
    number: u64,
    what: W,
}

impl<W> Ord for Event<W> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_us, self.number).cmp(&(other.at_us, other.number))
    }
}

impl<W> PartialOrd for Event<W> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<W> PartialEq for Event<W> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<W> Eq for Event<W> {}

/// Future events, in order.
#[derive(Debug)]
pub(crate) struct Events<W> {
    heap: BinaryHeap<Reverse<Event<W>>>,
    count: u64,
}

impl<W> Default for Events<W> {
    fn default() -> Self {
        Self {
            heap: BinaryHeap::new(),
            count: 0,
        }
    }
}

impl<W> Events<W> {
    pub(crate) fn push(&mut self, at_us: u64, what: W) {
        let number = self.count;
        self.count += 1;
        self.heap.push(Reverse(Event {
            at_us,
            number,
            what,
        }));
    }

    /// Time of the next event.
    pub(crate) fn next_us(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(event)| event.at_us)
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, W)> {
        self.heap
            .pop()
            .map(|Reverse(event)| (event.at_us, event.what))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_those_of_one_moment_in_the_order_of_insertion() {
        let mut events = Events::default();
        for (at_us, what) in [(5, 'c'), (1, 'a'), (5, 'd'), (2, 'b')] {
            events.push(at_us, what);
        }
        let order: Vec<char> = std::iter::from_fn(|| events.pop().map(|(_, what)| what)).collect();
        assert_eq!(order, ['a', 'b', 'c', 'd']);
    }
}
