//! Threads that drop values whose drop may wait.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::pthread::{Pthread, pthread_kill, pthread_self};
use nix::sys::signal::Signal;

/// The longest wait of a socket's last close. Such a wait lets a sender's last bytes out, and the
/// sender is another process.
pub const PATIENCE: Duration = Duration::from_millis(50);
/// Time without work after which a thread ends.
const IDLE: Duration = Duration::from_secs(5);
/// The signal that ends waits. Without a handler the kernel ignores it.
const NUDGE: Signal = Signal::SIGURG;

/// Drops values in its own threads. Clones share the threads.
#[derive(Clone)]
pub struct Closer(Arc<Inside>);

struct Inside {
    most: usize,
    state: Mutex<State>,
    more: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Box<dyn Any + Send>>,
    /// Number of threads that were started and have not ended.
    threads: usize,
    /// Number of these that wait for work.
    idle: usize,
    /// Threads that are closing a value, and the time they began. A thread is a number here: musl has a pointer, which
    /// threads may not pass to each other.
    busy: BTreeMap<u64, (usize, Instant)>,
    next: u64,
    /// True if a thread ends waits that are too long.
    nudged: bool,
}

impl std::fmt::Debug for Closer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Closer").finish_non_exhaustive()
    }
}

impl Closer {
    /// A closer of at most `threads` threads, at least one.
    pub fn new(threads: usize) -> Self {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| {
            let unread = Arc::new(AtomicBool::new(false));
            if let Err(error) = signal_hook::flag::register(NUDGE as i32, unread) {
                tracing::warn!(%error, "no handler for SIGURG: closes wait as long as those who passed a socket say");
            }
        });
        Self(Arc::new(Inside {
            most: threads.max(1),
            state: Mutex::default(),
            more: Condvar::new(),
        }))
    }

    /// Drops `value` in one of the threads, after earlier values. Does not wait.
    pub fn close<T: Send + 'static>(&self, value: T) {
        let mut state = self.0.lock();
        state.queue.push_back(Box::new(value));
        if state.idle >= state.queue.len() {
            self.0.more.notify_one();
        } else if state.threads < self.0.most && self.0.start() {
            state.threads += 1;
        }
    }

    /// Makes a call that does not wait itself, but may close a descriptor in this thread as it
    /// returns. Ends such a wait as those of the threads.
    pub fn attend<T>(&self, call: impl FnOnce() -> T) -> T {
        let number = self.0.begin(&mut self.0.lock());
        let result = call();
        self.0.end(number);
        result
    }

    /// Number of values that are not closed yet, and of attended calls.
    pub fn waiting(&self) -> usize {
        let state = self.0.lock();
        state.queue.len() + state.busy.len()
    }
}

impl Inside {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread; `false` if the system has none. Then the others, or a thread that a later
    /// close starts, close the waiting values.
    fn start(self: &Arc<Self>) -> bool {
        let inside = Arc::clone(self);
        let thread = thread::Builder::new().name("close".to_owned());
        let started = thread.spawn(move || inside.work());
        if let Err(error) = &started {
            tracing::warn!(%error, "no thread to close descriptors in");
        }
        started.is_ok()
    }

    fn work(self: &Arc<Self>) {
        while let Some((number, value)) = self.take() {
            drop(value);
            self.end(number);
        }
    }

    /// Notes that this thread may wait from now on.
    fn begin(self: &Arc<Self>, state: &mut State) -> u64 {
        let number = state.next;
        state.next += 1;
        state
            .busy
            .insert(number, (pthread_self() as usize, Instant::now()));
        if !state.nudged {
            state.nudged = self.start_nudging();
        }
        number
    }

    fn end(&self, number: u64) {
        self.lock().busy.remove(&number);
    }

    /// The next value; `None` if there is none for a while, and the thread ends.
    fn take(self: &Arc<Self>) -> Option<(u64, Box<dyn Any + Send>)> {
        let mut state = self.lock();
        loop {
            if let Some(value) = state.queue.pop_front() {
                return Some((self.begin(&mut state), value));
            }
            state.idle += 1;
            let waited = self.more.wait_timeout(state, IDLE);
            let (held, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
            state = held;
            state.idle -= 1;
            if timed_out.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return None;
            }
        }
    }

    fn start_nudging(self: &Arc<Self>) -> bool {
        let inside = Arc::clone(self);
        let thread = thread::Builder::new().name("close-nudge".to_owned());
        thread.spawn(move || inside.nudge()).is_ok()
    }

    /// Ends waits that are too long, until no value was closed for a while.
    fn nudge(&self) {
        let mut quiet = Duration::ZERO;
        loop {
            thread::sleep(PATIENCE / 2);
            let mut state = self.lock();
            quiet += PATIENCE / 2;
            for (thread, since) in state.busy.values() {
                quiet = Duration::ZERO;
                if since.elapsed() >= PATIENCE {
                    // It is there: it takes itself out under the lock. A thread that has left the
                    // kernel since only finds its next call interrupted.
                    let _sent = pthread_kill(*thread as Pthread, NUDGE);
                }
            }
            if quiet >= IDLE {
                state.nudged = false;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    const LONG: Duration = Duration::from_mins(1);

    /// Waits in its drop until it may go on.
    struct Slow(Receiver<()>, Sender<u32>, u32);

    impl Drop for Slow {
        fn drop(&mut self) {
            let _told = self.0.recv();
            let _gone = self.1.send(self.2);
        }
    }

    #[test]
    fn no_close_is_waited_for_and_threads_are_bounded() {
        let closer = Closer::new(2);
        let (ended, end) = channel();
        let mut wakes: Vec<_> = (0..10)
            .map(|number| {
                let (wake, told) = channel();
                closer.close(Slow(told, ended.clone(), number));
                wake
            })
            .collect();
        assert_eq!(closer.waiting(), 10);
        assert_eq!(closer.0.lock().threads, 2);
        // One thread goes on though the other stands still.
        let first = wakes.remove(0);
        drop(wakes);
        let others: Vec<_> = (0..9).map(|_| end.recv_timeout(LONG).unwrap()).collect();
        assert_eq!(others, (1..10).collect::<Vec<_>>());
        drop(first);
        assert_eq!(end.recv_timeout(LONG), Ok(0));
    }

    #[test]
    fn the_wait_of_a_socket_is_ended() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _unread = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        while stream.write(&[7; 4096]).is_ok() {}
        let hour = Duration::from_hours(1);
        rustix::net::sockopt::set_socket_linger(stream.as_fd(), Some(hour)).unwrap();
        let closer = Closer::new(1);
        let (ended, end) = channel();
        let (wake, told) = channel::<()>();
        drop(wake);
        closer.close((stream, Slow(told, ended, 0)));
        // Fields are dropped in order.
        assert_eq!(end.recv_timeout(LONG), Ok(0));
    }
}
