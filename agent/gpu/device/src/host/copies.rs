//! Streams and events of the simulated device, whose copies run only when a caller waits for them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::chunk::HostMapping;
use super::faults::Allowances;
use super::link::Link;
use crate::{HostSlice, MemoryError};

/// A queue of copies. A copy runs when a caller waits for it or polls its event.
#[derive(Debug)]
pub struct HostStream(Arc<Mutex<Queue>>);

/// The point after the copies queued before it.
#[derive(Debug)]
pub struct HostEvent {
    queue: Arc<Mutex<Queue>>,
    after: u64,
}

#[derive(Debug)]
struct Queue {
    allowances: Arc<Allowances>,
    link: Arc<Link>,
    waiting: VecDeque<Copy>,
    queued: u64,
    done: u64,
    /// Sources of executed copies, kept until the stream is settled, like on a real device.
    finished: Vec<Source>,
    failed: bool,
}

#[derive(Debug)]
struct Copy {
    to: Arc<HostMapping>,
    offset: u64,
    from: Source,
}

/// Source of a copy.
#[derive(Debug)]
pub(super) enum Source {
    Host(HostSlice),
    /// A part of another device's memory, in bytes.
    Device(Arc<HostMapping>, Range<u64>),
}

impl Queue {
    /// Runs the next copy.
    fn step(&mut self) -> Result<(), MemoryError> {
        let failed = || MemoryError::Copy {
            reason: "an injected fault".to_owned(),
        };
        if self.failed {
            return Err(failed());
        }
        let Some(copy) = self.waiting.pop_front() else {
            return Ok(());
        };
        let allowance = match &copy.from {
            Source::Host(_) => &self.allowances.copies,
            Source::Device(..) => &self.allowances.across,
        };
        if !allowance.take() {
            self.failed = true;
            return Err(failed());
        }
        match &copy.from {
            Source::Host(from) => {
                self.link.take(from.bytes().len());
                copy.to.write(copy.offset, from.bytes())?;
            }
            Source::Device(from, part) => {
                let mut bytes = vec![0; (part.end - part.start) as usize];
                from.read(part.start, &mut bytes)?;
                copy.to.write(copy.offset, &bytes)?;
            }
        }
        self.finished.push(copy.from);
        self.done += 1;
        Ok(())
    }

    fn run_to(&mut self, after: u64) -> Result<(), MemoryError> {
        while self.done < after {
            self.step()?;
        }
        Ok(())
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostStream {
    pub(super) fn new(allowances: Arc<Allowances>, link: Arc<Link>) -> Self {
        Self(Arc::new(Mutex::new(Queue {
            allowances,
            link,
            waiting: VecDeque::new(),
            queued: 0,
            done: 0,
            finished: Vec::new(),
            failed: false,
        })))
    }

    pub(super) fn push(&self, to: Arc<HostMapping>, offset: u64, from: Source) {
        let mut queue = lock(&self.0);
        queue.waiting.push_back(Copy { to, offset, from });
        queue.queued += 1;
    }

    pub(super) fn record(&self) -> HostEvent {
        HostEvent {
            queue: Arc::clone(&self.0),
            after: lock(&self.0).queued,
        }
    }

    pub(super) fn settle(&self) {
        lock(&self.0).finished.clear();
    }

    pub(super) fn synchronize(&self) -> Result<(), MemoryError> {
        let mut queue = lock(&self.0);
        let all = queue.queued;
        queue.run_to(all)?;
        queue.finished.clear();
        Ok(())
    }
}

impl HostEvent {
    /// Runs one more copy if the event has not happened yet, so that repeated polling completes it.
    pub(super) fn is_done(&self) -> Result<bool, MemoryError> {
        let mut queue = lock(&self.queue);
        if queue.done < self.after {
            queue.step()?;
        }
        Ok(queue.done >= self.after)
    }

    pub(super) fn wait(&self) -> Result<(), MemoryError> {
        lock(&self.queue).run_to(self.after)
    }
}
