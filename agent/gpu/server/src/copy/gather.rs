//! Threads that gather groups in pinned buffers.

use std::ops::DerefMut;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle, available_parallelism};

use tetris_gpu_device::HostSlice;

/// Maximum number of threads for each device. One thread copies about 5 to 10 GB/s from memory to
/// memory, and eight of them keep up with the fastest links.
const MOST_THREADS: usize = 8;

/// Default number of threads: no more than the process has cores.
pub(super) fn default_threads() -> usize {
    available_parallelism().map_or(1, |cores| cores.get().min(MOST_THREADS))
}

/// Bytes for a buffer.
#[derive(Debug)]
pub(super) struct Part {
    /// Offset in the buffer.
    pub at: usize,
    /// Number of bytes before it that the copy reads too, and that become zero: a buffer can have
    /// another tenant's bytes.
    pub gap: usize,
    /// The bytes.
    pub from: HostSlice,
}

/// Buffer that only its holder refers to, and the parts for it.
struct Job<B> {
    buffer: Arc<B>,
    parts: Vec<Part>,
    done: SyncSender<Arc<B>>,
}

/// Threads that gather.
#[derive(Debug)]
pub(super) struct Gatherers<B> {
    /// `None` without threads.
    jobs: Option<Sender<Job<B>>>,
    threads: Vec<JoinHandle<()>>,
}

/// Buffer that is being filled.
pub(super) struct Gathering<B> {
    done: Receiver<Arc<B>>,
    filled: Option<Arc<B>>,
}

impl<B: DerefMut<Target = [u8]> + Send + Sync + 'static> Gatherers<B> {
    /// Starts up to `count` threads. Without any, the caller gathers.
    pub fn start(count: usize) -> Self {
        let (sender, receiver) = channel::<Job<B>>();
        let receiver = Arc::new(Mutex::new(receiver));
        let mut threads = Vec::new();
        for _ in 0..count {
            let jobs = Arc::clone(&receiver);
            let thread = Builder::new().name("mirror-gather".to_owned());
            match thread.spawn(move || run(&jobs)) {
                Ok(thread) => threads.push(thread),
                Err(error) => {
                    tracing::warn!(%error, "fewer threads gather copies to a device");
                    break;
                }
            }
        }
        let jobs = (!threads.is_empty()).then_some(sender);
        Self { jobs, threads }
    }

    /// Begins to fill a buffer that no one else refers to.
    pub fn gather(&self, buffer: Arc<B>, parts: Vec<Part>) -> Gathering<B> {
        let (done, receiver) = sync_channel(1);
        let job = Job {
            buffer,
            parts,
            done,
        };
        let unsent = match &self.jobs {
            Some(jobs) => jobs.send(job).err().map(|unsent| unsent.0),
            None => Some(job),
        };
        if let Some(job) = unsent {
            job.run();
        }
        Gathering {
            done: receiver,
            filled: None,
        }
    }
}

impl<B> Drop for Gatherers<B> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread that gathers copies panicked");
            }
        }
    }
}

impl<B: DerefMut<Target = [u8]>> Job<B> {
    fn run(mut self) {
        if let Some(buffer) = Arc::get_mut(&mut self.buffer) {
            fill(buffer, &self.parts);
        }
        // Before the buffer comes back: the caller can unmap what it reads.
        self.parts.clear();
        // An error means that the transfer has ended.
        let _ended = self.done.send(self.buffer);
    }
}

fn run<B: DerefMut<Target = [u8]>>(jobs: &Mutex<Receiver<Job<B>>>) {
    loop {
        let job = {
            let jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
            jobs.recv()
        };
        match job {
            Ok(job) => job.run(),
            Err(_) => return,
        }
    }
}

fn fill(buffer: &mut [u8], parts: &[Part]) {
    for part in parts {
        if let Some(gap) = buffer.get_mut(part.at.saturating_sub(part.gap)..part.at) {
            gap.fill(0);
        }
        let from = part.from.bytes();
        if let Some(into) = buffer.get_mut(part.at..part.at + from.len()) {
            into.copy_from_slice(from);
        }
    }
}

impl<B> Gathering<B> {
    /// Returns true if the buffer is filled, or will never be.
    pub fn is_done(&mut self) -> bool {
        if self.filled.is_none() {
            match self.done.try_recv() {
                Ok(buffer) => self.filled = Some(buffer),
                Err(TryRecvError::Empty) => return false,
                Err(TryRecvError::Disconnected) => {}
            }
        }
        true
    }

    /// Waits for the buffer. `None`: its thread ended.
    pub fn wait(self) -> Option<Arc<B>> {
        self.filled.or_else(|| self.done.recv().ok())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use tetris_gpu_device::HostBytes;

    /// Bytes that a gathering thread gets once another one reads such bytes too.
    struct Together(Arc<Barrier>, Vec<u8>);

    impl HostBytes for Together {
        fn bytes(&self) -> &[u8] {
            let name = std::thread::current().name().map(str::to_owned);
            if name.as_deref() == Some("mirror-gather") {
                self.0.wait();
            }
            &self.1
        }
    }

    fn buffer() -> Arc<Box<[u8]>> {
        Arc::new(vec![9; 8].into_boxed_slice())
    }

    fn part(at: usize, gap: usize, from: HostSlice) -> Part {
        Part { at, gap, from }
    }

    #[test]
    fn several_buffers_are_filled_at_once() {
        let gatherers = Gatherers::start(2);
        let barrier = Arc::new(Barrier::new(2));
        let from = |byte| {
            let bytes = Together(Arc::clone(&barrier), vec![byte; 4]);
            vec![part(0, 0, HostSlice::whole(Arc::new(bytes)))]
        };
        let filling = [1, 2].map(|byte| gatherers.gather(buffer(), from(byte)));
        let filled = filling.map(|filling| filling.wait().unwrap()[0]);
        assert_eq!(filled, [1, 2]);
    }

    #[test]
    fn gaps_are_zero_and_the_rest_of_a_buffer_stays() {
        for count in [0, 1] {
            let gatherers = Gatherers::start(count);
            let bytes = |byte| HostSlice::whole(Arc::new(vec![byte; 2]));
            let parts = vec![part(1, 0, bytes(1)), part(5, 2, bytes(2))];
            let filled = gatherers.gather(buffer(), parts).wait().unwrap();
            assert_eq!(**filled, [9, 1, 1, 0, 0, 2, 2, 9][..]);
            assert_eq!(Arc::strong_count(&filled), 1);
        }
    }

    #[test]
    fn there_are_no_more_threads_than_cores() {
        let cores = available_parallelism().unwrap().get();
        assert!((1..=cores.min(8)).contains(&default_threads()));
    }
}
