//! Queue, threads and batches of a model server.

use std::collections::VecDeque;

use tetris_scaler_core::Configuration;

/// A model server as the reference instance has it: requests wait in the order in which they came,
/// each thread executes one batch at a time, and a batch waits for a time to be filled.
#[derive(Clone, Debug)]
pub(crate) struct Server<T> {
    batch: usize,
    concurrency: u32,
    /// Longest time for which a request waits for a batch to fill, in microseconds.
    batch_wait_us: u64,
    busy: u32,
    /// Number of requests in execution.
    in_work: u64,
    queue: VecDeque<(u64, T)>,
    flushing: bool,
}

/// Next step of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// A thread executes these requests.
    Work(Vec<T>),
    /// The server waits until that moment, in microseconds.
    Wait(u64),
    /// The server waits for the next event.
    Nothing,
}

impl<T> Server<T> {
    pub(crate) fn new(configuration: &Configuration, batch_wait_us: u64) -> Self {
        Self {
            batch: configuration.batch() as usize,
            concurrency: configuration.concurrency(),
            batch_wait_us,
            busy: 0,
            in_work: 0,
            queue: VecDeque::new(),
            flushing: false,
        }
    }

    /// Number of busy threads.
    pub(crate) const fn busy(&self) -> u32 {
        self.busy
    }

    /// Number of requests in execution and in the queue.
    pub(crate) fn outstanding(&self) -> u64 {
        self.in_work + self.queue.len() as u64
    }

    pub(crate) fn take(&mut self, now_us: u64, request: T) {
        self.queue.push_back((now_us, request));
    }

    /// Starts batches from now on without waiting for them to fill.
    pub(crate) const fn flush(&mut self) {
        self.flushing = true;
    }

    /// Returns the next step. An idle thread starts a batch when it is full, or when its oldest
    /// request has waited for as long as the batch may.
    pub(crate) fn next(&mut self, now_us: u64) -> Next<T> {
        let Some(&(since_us, _)) = self.queue.front() else {
            return Next::Nothing;
        };
        if self.busy >= self.concurrency {
            return Next::Nothing;
        }
        let until_us = since_us.saturating_add(self.batch_wait_us);
        if self.queue.len() < self.batch && now_us < until_us && !self.flushing {
            return Next::Wait(until_us);
        }
        let size = self.batch.min(self.queue.len());
        let requests: Vec<T> = self.queue.drain(..size).map(|(_, queue)| queue).collect();
        self.busy += 1;
        self.in_work += requests.len() as u64;
        Next::Work(requests)
    }

    /// Completes `count` requests and frees their thread.
    pub(crate) fn done(&mut self, count: usize) {
        self.busy = self.busy.saturating_sub(1);
        self.in_work = self.in_work.saturating_sub(count as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_scaler_core::ConfigurationSpec;

    fn server(batch: u32, concurrency: u32) -> Server<char> {
        let spec = ConfigurationSpec {
            cpu_millis: 1,
            own_bytes: 1,
            shared_bytes: 0,
            batch,
            concurrency,
            latency_us: 100,
            rate_millis: None,
            gpu: None,
        };
        Server::new(&Configuration::try_new(spec).unwrap(), 100)
    }

    #[test]
    fn a_batch_waits_to_be_filled_and_not_for_longer_than_it_may() {
        let mut batching = server(2, 1);
        batching.take(10, 'a');
        assert_eq!(batching.next(10), Next::Wait(110));
        assert_eq!(batching.next(110), Next::Work(vec!['a']));
        batching.take(120, 'b');
        batching.take(121, 'c');
        assert_eq!(batching.next(121), Next::Nothing, "its only thread works");
        batching.done(1);
        assert_eq!(batching.next(121), Next::Work(vec!['b', 'c']));
    }

    #[test]
    fn single_requests_wait_for_a_thread_and_for_nothing_else() {
        let mut threaded = server(1, 2);
        for request in ['a', 'b'] {
            threaded.take(0, request);
            assert_eq!(threaded.next(0), Next::Work(vec![request]));
        }
        threaded.take(3, 'c');
        assert_eq!(threaded.next(3), Next::Nothing);
        assert_eq!((threaded.busy(), threaded.outstanding()), (2, 3));
        threaded.done(1);
        assert_eq!(threaded.next(100), Next::Work(vec!['c']));
    }

    #[test]
    fn a_flushed_batch_does_not_wait() {
        let mut flushed = server(4, 1);
        flushed.take(0, 'a');
        flushed.flush();
        assert_eq!(flushed.next(0), Next::Work(vec!['a']));
    }
}
