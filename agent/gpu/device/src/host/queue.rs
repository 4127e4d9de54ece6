//! A stream of the simulated device that runs a consumer's steps in order, on its own thread.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{Builder, JoinHandle};

use crate::MemoryError;

/// Step of a queue: work, or a wait.
type Step = Box<dyn FnOnce() + Send>;

/// A stream for work of the host. Its drop waits for the queued steps.
#[derive(Debug)]
pub struct HostQueue {
    steps: Option<Sender<Step>>,
    thread: Option<JoinHandle<()>>,
}

impl HostQueue {
    /// Creates an empty queue.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Io`] if the thread cannot start.
    pub fn new() -> Result<Self, MemoryError> {
        let (steps, queued): (Sender<Step>, Receiver<Step>) = channel();
        let run = move || queued.into_iter().for_each(|step| step());
        let thread = Builder::new()
            .name("simulated-stream".to_owned())
            .spawn(run);
        let thread = thread.map_err(|error| MemoryError::io("start a stream", error))?;
        Ok(Self {
            steps: Some(steps),
            thread: Some(thread),
        })
    }

    /// Queues a step, which runs after all earlier ones. Does not wait for it.
    pub fn queue(&self, step: impl FnOnce() + Send + 'static) {
        if let Some(steps) = &self.steps {
            // The thread lives as long as this sender.
            let _sent = steps.send(Box::new(step));
        }
    }

    /// Waits until all queued steps have run.
    pub fn synchronize(&self) {
        let (done, ended) = channel();
        self.queue(move || {
            let _heard = done.send(());
        });
        // An error means that a step has panicked: nothing runs any more.
        let _ended = ended.recv();
    }
}

impl Drop for HostQueue {
    fn drop(&mut self) {
        drop(self.steps.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("a step of a simulated stream panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn steps_run_in_order_and_the_host_does_not_wait() {
        let queue = HostQueue::new().unwrap();
        let (go, gone) = channel::<()>();
        let order = Arc::new(Mutex::new(Vec::new()));
        queue.queue(move || gone.recv().unwrap());
        for number in 0..10 {
            let order = Arc::clone(&order);
            queue.queue(move || order.lock().unwrap().push(number));
        }
        assert!(order.lock().unwrap().is_empty(), "queued ahead");
        go.send(()).unwrap();
        queue.synchronize();
        assert_eq!(*order.lock().unwrap(), (0..10).collect::<Vec<_>>());
    }
}
