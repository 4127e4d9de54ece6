//! The thread that unmaps models: one for each process, started by the first model of a GPU that goes.
//!
//! Before memory is unmapped the device must have finished this process's work, which takes as long
//! as its kernels. The thread that lets go of a model may hold a lock, such as that of Python's
//! interpreter. While the process captures a CUDA graph the wait is forbidden (errors 900 to 908),
//! and the attempt can end the capture. So the memory is kept, and the thread tries again later.
//!
//! **Caveats.** No call of the driver shows that some stream of the process is being captured
//! without disturbing that capture. A program that captures takes a [`UnmappingPause`] for that
//! time.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::time::Duration;

use tetris_gpu_device::MemoryError;

/// First pause before kept memory is tried again; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Number of attempts that may fail for another reason than a capture.
const MOST_FAILURES: u32 = 8;
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Memory to unmap.
pub(super) trait Unmap: Send {
    /// Waits for the device and unmaps the memory.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if kernels may still use the memory. It stays as it is.
    fn attempt(&mut self) -> Result<(), MemoryError>;
    /// Leaves the memory mapped, and held at the server, until the process ends.
    fn leak(&mut self);
}

/// Memory that could not be unmapped yet.
struct Kept {
    memory: Box<dyn Unmap>,
    /// Number of attempts that failed for another reason than a capture.
    failures: u32,
}

impl Kept {
    /// Tries to unmap the memory.
    fn attempt(&mut self) -> Result<(), MemoryError> {
        if PAUSES.load(Ordering::SeqCst) > 0 {
            return Err(MemoryError::captures("wait for a device"));
        }
        let done = self.memory.attempt();
        if let Err(error) = &done
            && !error.is_capture()
        {
            self.failures += 1;
            if self.is_over() {
                tracing::warn!(%error, "device memory stays mapped, and held, until this process ends");
                self.memory.leak();
            }
        }
        done
    }

    /// Returns true if it is not tried again.
    fn is_over(&self) -> bool {
        self.failures >= MOST_FAILURES
    }
}

/// A message to the thread.
enum Message {
    Unmap(Box<dyn Unmap>, Option<SyncSender<Result<(), MemoryError>>>),
    /// Try what was kept, then answer.
    Settle(Option<SyncSender<()>>),
}

/// Number of [`UnmappingPause`]s.
static PAUSES: AtomicUsize = AtomicUsize::new(0);

/// Keeps the process's device memory mapped while it lives: for the time of a capture, which a wait
/// for the device would end.
#[derive(Debug)]
#[must_use = "memory is unmapped again once this value is dropped"]
pub struct UnmappingPause(());

impl UnmappingPause {
    /// Begins a pause. An attempt that has begun goes on.
    pub fn begin() -> Self {
        PAUSES.fetch_add(1, Ordering::SeqCst);
        Self(())
    }
}

impl Drop for UnmappingPause {
    fn drop(&mut self) {
        PAUSES.fetch_sub(1, Ordering::SeqCst);
        if let Some(thread) = started() {
            let _sent = thread.send(Message::Settle(None));
        }
    }
}

/// The way to the thread.
struct Way {
    messages: Sender<Message>,
    /// Process in which the thread runs: a forked child has none.
    process: u32,
}

/// The way to the thread, once it was needed; `None` if it could not be started.
static THREAD: OnceLock<Option<Way>> = OnceLock::new();

/// The way to this process's thread, if it has been started.
fn started() -> Option<&'static Sender<Message>> {
    let way = THREAD.get()?.as_ref()?;
    (way.process == std::process::id()).then_some(&way.messages)
}

/// The way to this process's thread, which is started if need be.
fn thread() -> Option<&'static Sender<Message>> {
    THREAD.get_or_init(|| {
        let (messages, receiver) = channel();
        let thread = thread::Builder::new().name("tetris-unmap".to_owned());
        let begun = thread.spawn(move || Reaper::default().run(&receiver));
        let process = std::process::id();
        begun.is_ok().then_some(Way { messages, process })
    });
    started()
}

/// Has memory unmapped.
pub(super) fn take(memory: Box<dyn Unmap>) {
    if let Some(thread) = thread() {
        // The thread lives as long as the process.
        let _sent = thread.send(Message::Unmap(memory, None));
        return;
    }
    let mut memory = memory;
    if memory.attempt().is_err() {
        memory.leak();
    }
}

/// Has memory unmapped, and waits for the first attempt. After an error the thread tries again.
pub(super) fn take_and_wait(memory: Box<dyn Unmap>) -> Result<(), MemoryError> {
    let Some(thread) = thread() else {
        take(memory);
        return Ok(());
    };
    let (done, answer) = sync_channel(1);
    let _sent = thread.send(Message::Unmap(memory, Some(done)));
    answer.recv().unwrap_or(Ok(()))
}

/// Waits until this process has tried to unmap all models that it has let go of.
pub fn settle_unmapping() {
    if let Some(thread) = started() {
        let (done, answer) = sync_channel(1);
        let _sent = thread.send(Message::Settle(Some(done)));
        let _answered = answer.recv();
    }
}

/// The thread's state: memory that was kept.
#[derive(Default)]
struct Reaper {
    kept: Vec<Kept>,
    pause: Duration,
}

impl Reaper {
    fn run(mut self, messages: &Receiver<Message>) {
        loop {
            let message = if self.kept.is_empty() {
                messages.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                messages.recv_timeout(self.pause)
            };
            match message {
                Ok(Message::Unmap(memory, first)) => self.first(memory, first),
                Ok(Message::Settle(done)) => {
                    self.again();
                    if let Some(done) = done {
                        let _told = done.send(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => self.again(),
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn first(
        &mut self,
        memory: Box<dyn Unmap>,
        first: Option<SyncSender<Result<(), MemoryError>>>,
    ) {
        let mut kept = Kept {
            memory,
            failures: 0,
        };
        let done = kept.attempt();
        if let Err(error) = &done {
            tracing::debug!(%error, "device memory is kept for now");
            self.kept.push(kept);
            self.pause = FIRST_PAUSE;
        } else {
            // Before the answer, so that the device's own values are gone by then.
            drop(kept);
        }
        if let Some(first) = first {
            let _told = first.send(done);
        }
    }

    /// Tries all that was kept.
    fn again(&mut self) {
        self.kept
            .retain_mut(|kept| kept.attempt().is_err() && !kept.is_over());
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::Mutex;

    use super::*;

    /// Memory whose attempts end with these codes; 0: done. The log has 1 for a leak.
    struct Scripted {
        codes: Vec<u32>,
        log: Arc<Mutex<Vec<u32>>>,
    }

    impl Unmap for Scripted {
        fn attempt(&mut self) -> Result<(), MemoryError> {
            let code = self.codes.remove(0);
            self.log.lock().unwrap().push(code);
            if code == 0 {
                return Ok(());
            }
            Err(MemoryError::Driver {
                action: "wait for a device",
                code,
                name: String::new(),
            })
        }

        fn leak(&mut self) {
            self.log.lock().unwrap().push(1);
        }
    }

    fn run(codes: &[u32]) -> (Result<(), MemoryError>, Vec<u32>) {
        let log = Arc::default();
        let memory = Scripted {
            codes: codes.to_vec(),
            log: Arc::clone(&log),
        };
        let (sender, receiver) = channel();
        let thread = thread::spawn(move || Reaper::default().run(&receiver));
        let (done, answer) = sync_channel(1);
        let message = Message::Unmap(Box::new(memory), Some(done));
        sender.send(message).unwrap();
        let answer = answer.recv().unwrap();
        for _ in codes {
            let (done, settled) = sync_channel(1);
            sender.send(Message::Settle(Some(done))).unwrap();
            settled.recv().unwrap();
        }
        drop(sender);
        thread.join().unwrap();
        let log = log.lock().unwrap().clone();
        (answer, log)
    }

    #[test]
    fn memory_is_kept_during_a_capture_and_tried_again() {
        let codes = [900, 901, 906, 900, 900, 900, 900, 900, 900, 0];
        let (answer, log) = run(&codes);
        assert!(answer.unwrap_err().is_capture());
        assert_eq!(log, codes);
    }

    #[test]
    fn a_call_that_fails_once_is_made_again_and_one_that_always_fails_is_given_up() {
        let (answer, log) = run(&[999, 0]);
        assert!(answer.is_err());
        assert_eq!(log, [999, 0]);
        let always = [999; MOST_FAILURES as usize];
        let (_, log) = run(&always);
        let (last, failures) = log.split_last().unwrap();
        assert_eq!((*last, failures), (1, always.as_slice()));
    }
}
