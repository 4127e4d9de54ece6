//! The holder of `tetris exec`: keeps references for a process that does not know of them.
//!
//! It is started twice: the first process only starts the second and ends, so that the second is no
//! child of CMD. The second gets a pidfd of CMD as stdin, loads the models, reports on stdout and waits
//! until CMD has ended. It holds nothing of CMD's but, until it has reported, stderr.

use std::fs::{self, File, Permissions};
use std::io::{Write, stdin, stdout};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use clap::Args;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{close, dup2_stderr, dup2_stdout, mkdtemp, setsid};
use serde::{Deserialize, Serialize};
use tetris_agent::{Agent, LoadOptions};

use super::error::{Error, Result};
use super::exit::Code;
use super::loading::{Loaded, References, kind_of};
use super::output;
use super::progress::Bar;
use tetris_agent::store_location::StoreLocation;

/// This very program, even when its file was replaced meanwhile.
pub(crate) const SELF: &str = "/proc/self/exe";

/// Name of the hidden subcommand.
pub(crate) const HOLD: &str = "__hold";

/// Arguments of the hidden subcommand.
#[derive(Debug, Args)]
pub(crate) struct HoldArgs {
    /// This is the second process
    #[arg(long)]
    detached: bool,
    /// Keep safetensors files whole as well
    #[arg(long)]
    whole_file: bool,
    /// The models
    #[arg(last = true, value_name = "MODEL")]
    models: Vec<PathBuf>,
}

/// The holder's message, in one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Report {
    /// The references are held.
    Ready {
        /// For each model the path that stands for it, as bytes; `None` when its own does.
        paths: Vec<Option<Vec<u8>>>,
    },
    /// A model is missing or invalid.
    NoModel {
        /// The models, and the reason.
        message: String,
    },
    /// There is no store to hold anything in.
    NoStore {
        /// The reason.
        message: String,
    },
}

/// Runs the hidden subcommand.
pub(crate) fn run(args: &HoldArgs, location: &StoreLocation) -> Result {
    let failed = |error| Error::new(Code::Failed, anyhow::Error::new(error));
    if !args.detached {
        close_inherited();
        let mut command = Command::new(SELF);
        command.arg0("tetris").arg("--store").arg(&location.dir);
        command.args([HOLD, "--detached"]);
        if args.whole_file {
            command.arg("--whole-file");
        }
        let spawned = command.arg("--").args(&args.models).spawn();
        // Not waited for, on purpose: it outlives this process.
        return spawned.map(drop).map_err(failed);
    }
    detach();
    let links = Arc::new(Mutex::new(Links::default()));
    let worker = {
        let (links, location) = (Arc::clone(&links), location.clone());
        let (models, whole_file) = (args.models.clone(), args.whole_file);
        std::thread::spawn(move || work(&models, whole_file, &location, &links))
    };
    let waited = wait_for_end();
    // The worker may still be loading; it ends with this process, and its references with it.
    drop(worker);
    if let Ok(mut links) = links.lock() {
        links.remove();
    }
    waited
}

/// Closes whatever CMD inherits besides the three standard streams. A listening socket or the end of a
/// pipe must not stay open here when CMD closes it. Nothing of this process is open yet.
fn close_inherited() {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else {
        return;
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let open: Vec<RawFd> = names.filter_map(|name| name.parse().ok()).collect();
    for fd in open.into_iter().filter(|&fd| fd > 2) {
        // The directory's own descriptor is in the list, and closed by now.
        let _closed_already = close(fd);
    }
}

/// Leaves CMD's session and ignores what is meant for CMD: Ctrl-C, and the signals that end a service
/// before it is killed. The end of CMD ends the holder, nothing else is needed.
fn detach() {
    // The starter leads no group with this process in it, so this does not fail.
    let _leader = setsid();
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
    ] {
        signals.add(signal);
    }
    let _mask = signals.thread_block();
    // What `ps` and `top` show; it would be `exe`.
    let _no_proc = fs::write("/proc/self/comm", "tetris-hold");
}

/// Waits until the process behind the pidfd on stdin has ended.
fn wait_for_end() -> Result {
    let stdin = stdin();
    loop {
        let mut ends = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        match poll(&mut ends, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(Error::new(Code::Failed, error)),
        }
    }
}

/// Lets go of what CMD's process shares with this one, when dropped; so also when the worker panics,
/// and CMD's process does not wait for ever.
struct Reporting;

impl Drop for Reporting {
    fn drop(&mut self) {
        let Ok(null) = File::options().write(true).open("/dev/null") else {
            return;
        };
        let _ = dup2_stderr(&null);
        let _ = dup2_stdout(&null);
    }
}

/// Loads the models and reports. What it returns keeps the references.
fn work(
    models: &[PathBuf],
    whole_file: bool,
    location: &StoreLocation,
    links: &Mutex<Links>,
) -> Vec<References> {
    let reporting = Reporting;
    let (report, references) = match load_all(models, whole_file, location, links) {
        Ok((paths, references)) => (Report::Ready { paths }, references),
        Err(error) if error.code == Code::Model => (
            Report::NoModel {
                message: error.to_string(),
            },
            Vec::new(),
        ),
        Err(error) => (
            Report::NoStore {
                message: error.to_string(),
            },
            Vec::new(),
        ),
    };
    // Before the report: from then on stderr is CMD's alone.
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = dup2_stderr(&null);
    }
    // Nor does the holder keep CMD's directory busy.
    let _ = std::env::set_current_dir("/");
    if let Ok(mut line) = serde_json::to_vec(&report) {
        line.push(b'\n');
        let mut out = stdout().lock();
        let _nobody_waits = out.write_all(&line).and_then(|()| out.flush());
    }
    drop(reporting);
    references
}

type Substitutes = Vec<Option<Vec<u8>>>;

fn load_all(
    models: &[PathBuf],
    whole_file: bool,
    location: &StoreLocation,
    links: &Mutex<Links>,
) -> Result<(Substitutes, Vec<References>)> {
    let agent = Agent::open_at(location)?;
    let (mut paths, mut references) = (Vec::new(), Vec::new());
    for (index, model) in models.iter().enumerate() {
        let options = LoadOptions::default()
            // A model named here should be in the store.
            .with_min_shared_bytes(0)
            .with_progress(Bar::of_load("loading", model));
        let loaded = Loaded::load(&agent, model, kind_of(model, whole_file), &options)?;
        if let Some(reason) = loaded.not_in_store() {
            output::warning(format_args!(
                "not all of `{}` is in the store, and CMD runs all the same: {reason}",
                model.display()
            ));
        }
        let substitute = loaded.stored_path().and_then(|object| {
            let mut links = links.lock().ok()?;
            match links.add(index + 1, model, object) {
                Ok(link) => Some(link.as_os_str().as_bytes().to_vec()),
                Err(error) => {
                    output::warning(format_args!(
                        "cannot make a link to `{}`, CMD gets the original file: {error}",
                        object.display()
                    ));
                    None
                }
            }
        });
        paths.push(substitute);
        references.push(loaded.into_references(&agent));
    }
    Ok((paths, references))
}

/// Links to objects under the names of the original files, because programs look at endings.
#[derive(Debug, Default)]
struct Links {
    dir: Option<PathBuf>,
    removed: bool,
}

impl Links {
    /// Makes a link `<number>/<name of the model>` to `object`.
    fn add(&mut self, number: usize, model: &Path, object: &Path) -> std::io::Result<PathBuf> {
        if self.removed {
            return Err(std::io::ErrorKind::Interrupted.into());
        }
        let dir = match &self.dir {
            Some(dir) => dir.clone(),
            None => self.dir.insert(Self::make_dir()?).clone(),
        };
        let folder = dir.join(number.to_string());
        fs::create_dir(&folder)?;
        let link = folder.join(model.file_name().unwrap_or(object.as_os_str()));
        symlink(std::path::absolute(object)?, &link)?;
        Ok(link)
    }

    /// A directory that no one else can list, but CMD can use when it changes to another user.
    fn make_dir() -> std::io::Result<PathBuf> {
        let dir = mkdtemp(&std::env::temp_dir().join("tetris-exec-XXXXXX"))?;
        fs::set_permissions(&dir, Permissions::from_mode(0o711))?;
        Ok(dir)
    }

    fn remove(&mut self) {
        self.removed = true;
        if let Some(dir) = self.dir.take() {
            let _gone_already = fs::remove_dir_all(dir);
        }
    }
}
