//! Work shared between threads.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::Builder;

/// Runs `work` on up to `threads` threads, the calling one among them, and returns the first error.
///
/// At a limit of threads, those that could be started do the work. A panic in one of them is a bug and
/// goes on in the caller: results must never be taken for complete when they are not.
pub fn run<E: Send>(threads: usize, work: impl Fn() -> Result<(), E> + Sync) -> Result<(), E> {
    let (ready, go) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (ready, go, work) = (&ready, &go, &work);
    std::thread::scope(|scope| {
        let helper = || {
            move || {
                // Starting a thread and its first allocation take mappings, and end the process if there
                // are none: so all are started before any work uses up those that it may have.
                drop(std::hint::black_box(Box::new([0u8; 64])));
                ready.fetch_add(1, Ordering::Release);
                while !go.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
                work()
            }
        };
        let start = |_| Builder::new().spawn_scoped(scope, helper()).ok();
        let helpers: Vec<_> = (1..threads).map_while(start).collect();
        while ready.load(Ordering::Acquire) < helpers.len() {
            std::thread::yield_now();
        }
        go.store(true, Ordering::Release);
        let mine = work();
        let joined = helpers
            .into_iter()
            .map(|helper| helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.fold(mine, Result::and)
    })
}

/// Does `work` for each of `tasks`, on up to `threads` threads.
pub fn for_each<T: Send, E: Send>(
    threads: usize,
    tasks: Vec<T>,
    work: impl Fn(T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let threads = threads.min(tasks.len());
    let tasks = Mutex::new(tasks);
    run(threads, || {
        loop {
            let task = tasks.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match task {
                Some(task) => work(task)?,
                None => return Ok(()),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_task_is_done_once() {
        let sum = AtomicU64::new(0);
        let done = for_each(4, (1..=100).collect(), |n: u64| {
            sum.fetch_add(n, Ordering::Relaxed);
            Ok::<(), ()>(())
        });
        assert_eq!((done, sum.into_inner()), (Ok(()), 5050));
    }

    #[test]
    fn an_error_of_any_thread_is_returned() {
        let failed = for_each(
            3,
            (0..30).collect(),
            |n| if n == 7 { Err(n) } else { Ok(()) },
        );
        assert_eq!(failed, Err(7));
    }

    #[test]
    #[should_panic(expected = "a bug")]
    fn a_panic_of_any_thread_is_not_lost() {
        let _ = for_each(2, vec![1, 2], |_| -> Result<(), ()> { panic!("a bug") });
    }
}
