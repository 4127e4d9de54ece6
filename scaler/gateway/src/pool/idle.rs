//! Idle connections of one thread to one instance.
//!
//! **Which one.** The connection that was used last is the least likely to be closed by now, and serves most
//! requests. One that has been idle for half its time serves before it: those that only a burst needs are there
//! for the next burst, whose requests would have to wait for new ones.
//!
//! **How many.** Of the connections that no moment of a [`WINDOW`] needed, half are closed: a connection that is
//! seldom used is slower than one that always is.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Largest number of idle connections.
const MOST: usize = 256;
/// Time for which they wait. Python's servers close idle connections after 5 s, and a request that
/// meets the end of its connection fails.
const TIME: Duration = Duration::from_secs(4);
/// Time in which the need for connections is looked at.
const WINDOW: Duration = Duration::from_secs(10);

/// Idle connections. Those that it lets go are closed.
#[derive(Debug)]
pub(super) struct Idle<C> {
    /// With the time since when, the longest first.
    connections: VecDeque<(Instant, C)>,
    /// Fewest left by a request of the window.
    fewest: usize,
    window_began: Option<Instant>,
}

impl<C> Default for Idle<C> {
    fn default() -> Self {
        Self {
            connections: VecDeque::new(),
            fewest: 0,
            window_began: None,
        }
    }
}

impl<C> Idle<C> {
    /// Takes a connection for a request.
    pub(super) fn take(&mut self, now: Instant) -> Option<C> {
        let for_as_long = |(since, _): &(Instant, C), time| now.duration_since(*since) > time;
        while let Some(first) = self.connections.front()
            && for_as_long(first, TIME)
        {
            self.connections.pop_front();
        }
        let halfway = |first| for_as_long(first, TIME / 2);
        let taken = if self.connections.front().is_some_and(halfway) {
            self.connections.pop_front()
        } else {
            self.connections.pop_back()
        };
        self.fewest = self.fewest.min(self.connections.len());
        taken.map(|(_, connection)| connection)
    }

    /// Keeps a connection whose response has ended.
    pub(super) fn keep(&mut self, now: Instant, connection: C) {
        if self.connections.len() < MOST {
            self.connections.push_back((now, connection));
        }
        let began = *self.window_began.get_or_insert(now);
        if now.duration_since(began) >= WINDOW {
            let unneeded = self.fewest.min(self.connections.len());
            self.connections.drain(..unneeded.div_ceil(2));
            self.fewest = self.connections.len();
            self.window_began = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn idle(now: Instant, numbers: impl IntoIterator<Item = usize>) -> Idle<usize> {
        let mut idle = Idle::default();
        for number in numbers {
            idle.keep(now, number);
        }
        idle
    }

    #[test]
    fn the_last_used_serves_first_and_one_that_waits_too_long_never() {
        let now = Instant::now();
        let mut two = idle(now, [1, 2]);
        assert_eq!(two.take(now), Some(2));
        two.keep(now, 2);
        assert_eq!(two.take(now + TIME + MS), None);
    }

    #[test]
    fn rare_requests_keep_all_connections_that_a_burst_needed() {
        let mut now = Instant::now();
        let mut idle = idle(now, 0..8);
        // One at a time for twice as long as they may wait.
        for _ in 0..40 {
            now += TIME / 20;
            let taken = idle.take(now).expect("connections for all requests");
            idle.keep(now, taken);
        }
        let left = std::iter::from_fn(|| idle.take(now)).count();
        assert_eq!(left, 8, "none has waited for longer than it may");
    }

    #[test]
    fn connections_that_nothing_needed_are_closed_by_and_by() {
        let begin = Instant::now();
        let mut idle = idle(begin, 0..100);
        let one_burst = |idle: &mut Idle<usize>, now| {
            let taken: Vec<_> = (0..3).filter_map(|_| idle.take(now)).collect();
            assert_eq!(taken.len(), 3);
            for entry in taken {
                idle.keep(now, entry);
            }
        };
        let step = TIME / 100;
        let mut now = begin;
        while now < begin + WINDOW * 10 {
            now += step;
            one_burst(&mut idle, now);
        }
        assert_eq!(std::iter::from_fn(|| idle.take(now)).count(), 3);
    }

    #[test]
    fn a_burst_leaves_no_more_than_may_wait() {
        let now = Instant::now();
        let mut idle = idle(now, 0..MOST + 9);
        assert_eq!(std::iter::from_fn(|| idle.take(now)).count(), MOST);
    }
}
