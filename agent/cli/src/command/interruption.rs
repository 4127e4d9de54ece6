//! Ctrl-C in a load: says what the store keeps, and how to go on, before the command ends.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use nix::sys::signal::{SigSet, Signal, raise};
use tetris_agent::{Agent, ProgressFn};
use tetris_units::size::Bytes;

use super::error::{Error, Result};
use super::exit::Code;
use super::output;

/// The signals that end a load, and `--hold`.
const SIGNALS: [Signal; 2] = [Signal::SIGINT, Signal::SIGTERM];

/// Watches for the signals, in its own thread, from the first model on.
pub(crate) struct Interruption {
    state: Arc<Mutex<LoadState>>,
    held_until: Receiver<Signal>,
}

/// Progress of the command.
#[derive(Debug, Default)]
struct LoadState {
    /// Models loaded in full.
    loaded: usize,
    /// The model that is being loaded, and the word for that.
    model: Option<PathBuf>,
    doing: &'static str,
    /// Bytes of its present file, done and in all.
    done: u64,
    total: u64,
    /// True while references are held: a signal is no interruption then.
    holds: bool,
}

impl Interruption {
    /// Blocks the signals in this thread and those that it starts, and waits for them in another.
    pub(crate) fn watch(agent: &Agent) -> Result<Self> {
        let failed = |error: io::Error| Error::new(Code::Failed, error);
        let ignored = ignored_signals();
        let heard = SIGNALS
            .into_iter()
            .filter(|signal| !is_in(ignored, *signal));
        let signals: SigSet = heard.collect();
        signals
            .thread_block()
            .map_err(|error| failed(error.into()))?;
        let state = Arc::new(Mutex::new(LoadState::default()));
        let (tell, held_until) = channel();
        let watcher = Watcher {
            state: Arc::clone(&state),
            agent: agent.clone(),
            begun: SystemTime::now(),
            tell,
        };
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || watcher.run(signals))
            .map_err(failed)?;
        Ok(Self { state, held_until })
    }

    /// Notes that the model at `path` is next, and what is done with it, e.g. `loading`. Returns `progress` with a note of the bytes.
    pub(crate) fn begin(
        &self,
        doing: &'static str,
        path: &Path,
        progress: ProgressFn,
    ) -> ProgressFn {
        let mut state = lock(&self.state);
        state.doing = doing;
        state.model = Some(path.to_owned());
        (state.done, state.total) = (0, 0);
        let of_file = Arc::clone(&self.state);
        ProgressFn::new(move |now| {
            let mut state = lock(&of_file);
            (state.done, state.total) = (now.done, now.total);
            drop(state);
            progress.report(now);
        })
    }

    /// Notes that the model is loaded.
    pub(crate) fn end(&self) {
        let mut state = lock(&self.state);
        state.model = None;
        state.loaded += 1;
    }

    /// Has signals end [`Interruption::hold`] from now on, in place of the command.
    pub(crate) fn set_holding(&self) {
        lock(&self.state).holds = true;
    }

    /// Waits for a signal, at most this long.
    pub(crate) fn hold_for(&self, time: Duration) -> Option<Signal> {
        self.held_until.recv_timeout(time).ok()
    }

    /// Waits for a signal.
    pub(crate) fn hold(&self) -> Signal {
        // The watcher hangs up only with the process.
        self.held_until.recv().unwrap_or(Signal::SIGTERM)
    }
}

/// Ends the process successfully, whatever other threads wait for.
#[expect(
    clippy::exit,
    reason = "the end of a command whose other threads wait for the kernel"
)]
pub(crate) fn end_well() -> ! {
    std::process::exit(0)
}

/// The thread that waits for the signals.
struct Watcher {
    state: Arc<Mutex<LoadState>>,
    agent: Agent,
    begun: SystemTime,
    tell: Sender<Signal>,
}

impl Watcher {
    fn run(self, signals: SigSet) {
        while let Ok(signal) = signals.wait() {
            let state = lock(&self.state);
            if state.holds {
                let _ended = self.tell.send(signal);
                continue;
            }
            // The lock is kept: the load reports no more progress.
            self.explain(&state);
            end_by(signal);
        }
    }

    fn explain(&self, state: &LoadState) {
        let mut text = match &state.model {
            Some(model) if state.total > 0 => format!(
                "stopped while {} `{}`, after {} of {}",
                state.doing,
                model.display(),
                Bytes(state.done),
                Bytes(state.total)
            ),
            Some(model) => format!("stopped while {} `{}`", state.doing, model.display()),
            None => "stopped".to_owned(),
        };
        if state.loaded > 0 {
            text.extend([
                "; ",
                &state.loaded.to_string(),
                " models before it are complete",
            ]);
        }
        let (objects, bytes) = self.published();
        output::warning(format_args!(
            "{text}; the {objects} objects ({}) published meanwhile stay in the store; go on with the same command, which publishes only the rest, or free them with `tetris gc`",
            Bytes(bytes)
        ));
    }

    /// Number and bytes of the objects published since the command began.
    fn published(&self) -> (u64, u64) {
        let listing = self.agent.store().and_then(|store| store.objects().ok());
        let objects = listing.map(|listing| listing.objects).unwrap_or_default();
        let new = objects.iter().filter(|entry| entry.published >= self.begun);
        new.fold((0, 0), |(count, bytes), entry| {
            (count + 1, bytes + entry.object.len)
        })
    }
}

/// The signals that this process was started to ignore, as a mask: one that is blocked is delivered even
/// so, and a job in the background of a script must not end by its Ctrl-C.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status)
}

fn ignored_in(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.map_or(0, |mask| u64::from_str_radix(mask.trim(), 16).unwrap_or(0))
}

fn is_in(mask: u64, signal: Signal) -> bool {
    mask >> (signal as u32 - 1) & 1 == 1
}

/// Ends the process by `signal`, as if no one had waited for it: a shell sees that.
#[expect(clippy::exit, reason = "the end of a command that a signal stops")]
pub(crate) fn end_by(signal: Signal) {
    let only = SigSet::from_iter([signal]);
    let _unblocked = only.thread_unblock();
    let _raised = raise(signal);
    // Something has the signal ignored.
    std::process::exit(128 + signal as i32);
}

fn lock(state: &Mutex<LoadState>) -> MutexGuard<'_, LoadState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_kernel_s_mask() {
        let status = "Name:\ttetris\nSigIgn:\t0000000000001002\nSigCgt:\t0000000000004000\n";
        let mask = ignored_in(status);
        assert!(is_in(mask, Signal::SIGINT) && !is_in(mask, Signal::SIGTERM));
        assert_eq!(ignored_in("Name:\ttetris\n"), 0);
    }
}
