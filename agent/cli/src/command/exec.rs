//! `tetris exec`: run a program while models stay in the store.
//!
//! CMD finds the store, and a Python program's `safetensors` goes through it (`TETRIS_PATCH`). With models
//! to hold, this process starts a holder (see `hold.rs`), waits until the holder has the references, and then
//! becomes CMD: same process id, so signals, terminal and exit code are CMD's own. The holder watches
//! this process through a pidfd and lets go when it ends, however it ends.
//!
//! CMD is not the holder's parent, with one exception that cannot be helped: as process 1 of a
//! container it is everybody's.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use tetris_agent::{ManifestKind, hub};

use super::error::{Error, Result};
use super::exit::Code;
use super::hold::{HOLD, Report, SELF};
use super::loading::kind_of;
use super::output;
use tetris_agent::store_location::{STORE_ENV, StoreLocation};

/// Set to 1, a Python interpreter that has the package `tetris` loads safetensors files through the store.
const PATCH_ENV: &str = "TETRIS_PATCH";

/// Arguments of `exec`.
#[derive(Debug, Args)]
pub(crate) struct ExecArgs {
    /// A model that CMD uses: a safetensors file, a directory as Hugging Face lays it out, or another
    /// file, which is kept whole; can be given several times
    #[arg(long = "model", short, value_name = "MODEL")]
    models: Vec<PathBuf>,
    /// Keep safetensors files whole as well, for programs that map them by path
    #[arg(long)]
    whole_file: bool,
    /// Leave `{}` in CMD's arguments as it is
    #[arg(long)]
    no_substitute: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `exec`; returns only when CMD does not start.
pub(crate) fn run(args: &ExecArgs, location: &StoreLocation) -> Result {
    // As CMD would see them from wherever it goes.
    let models: Vec<PathBuf> = args
        .models
        .iter()
        .map(|model| std::path::absolute(model).unwrap_or_else(|_| model.clone()))
        .collect();
    let paths = match location.open() {
        Ok(_) if models.is_empty() => Ok(Vec::new()),
        Ok(_) => hold(args, &models, location)?,
        Err(unusable) => Err(Unheld::Store(Error::from(unusable).to_string())),
    };
    let paths = match paths {
        Ok(paths) => paths,
        Err(reason) => {
            models
                .iter()
                .try_for_each(|model| require_model(model, args.whole_file))?;
            output::warning(format_args!(
                "{reason}; CMD runs all the same, without a store"
            ));
            args.models.clone()
        }
    };
    Err(become_command(args, &paths, location))
}

/// The reason that CMD runs without models in the store.
#[derive(Debug, thiserror::Error)]
enum Unheld {
    #[error("{0}")]
    Store(String),
    #[error("this kernel gives no handle to a process: {0}")]
    Handle(#[source] io::Error),
    #[error("cannot start a process that holds the models: {0}")]
    Start(#[source] io::Error),
    #[error("the process that holds the models ended early")]
    Ended,
}

/// Starts a holder and waits until it has the references. Returns the paths that stand for the
/// models, or why there is no holder.
fn hold(
    args: &ExecArgs,
    models: &[PathBuf],
    location: &StoreLocation,
) -> Result<std::result::Result<Vec<PathBuf>, Unheld>> {
    let report = match start_holder(args, models, location) {
        Ok(report) => report,
        Err(reason) => return Ok(Err(reason)),
    };
    match report {
        Report::Ready { paths } => {
            let substitutes = paths.into_iter().zip(&args.models);
            Ok(Ok(substitutes
                .map(|(path, model)| match path {
                    Some(path) => OsString::from_vec(path).into(),
                    None => model.clone(),
                })
                .collect()))
        }
        Report::NoModel { message } => Err(Error::message(Code::Model, message)),
        Report::NoStore { message } => Ok(Err(Unheld::Store(message))),
    }
}

fn start_holder(
    args: &ExecArgs,
    models: &[PathBuf],
    location: &StoreLocation,
) -> std::result::Result<Report, Unheld> {
    // Opened by the process that it refers to, so no other can have taken its number.
    let pidfd =
        pidfd_open(getpid(), PidfdFlags::empty()).map_err(|error| Unheld::Handle(error.into()))?;
    let mut command = Command::new(SELF);
    command.arg0("tetris").arg("--store").arg(&location.dir);
    command.arg(HOLD);
    if args.whole_file {
        command.arg("--whole-file");
    }
    command.arg("--").args(models);
    command.stdin(pidfd).stdout(Stdio::piped());
    let mut starter = command.spawn().map_err(Unheld::Start)?;
    let pipe = starter.stdout.take();
    // The starter leaves its own child behind and ends, so that CMD has no child that it did not
    // start.
    starter.wait().map_err(Unheld::Start)?;
    let mut line = Vec::new();
    if let Some(pipe) = pipe {
        let pipe = File::from(std::os::fd::OwnedFd::from(pipe));
        let read = BufReader::new(pipe).read_until(b'\n', &mut line);
        read.map_err(Unheld::Start)?;
    }
    serde_json::from_slice(&line).map_err(|_| Unheld::Ended)
}

/// Checks that there is a model, as the holder does by loading it.
fn require_model(model: &Path, whole_file: bool) -> Result {
    if kind_of(model, whole_file) == ManifestKind::Safetensors {
        let resolved = hub::resolve(model);
        resolved.map_err(|error| Error::new(Code::Model, error))?;
    } else if !model.is_file() {
        return Err(Error::message(
            Code::Model,
            format_args!("expected a file, found none at `{}`", model.display()),
        ));
    }
    Ok(())
}

fn become_command(args: &ExecArgs, paths: &[PathBuf], location: &StoreLocation) -> Error {
    let (program, arguments) = match args.command.split_first() {
        Some((program, arguments)) => (program.as_os_str(), arguments),
        None => (OsStr::new(""), &[][..]),
    };
    let mut command = Command::new(program);
    for argument in arguments {
        if args.no_substitute {
            command.arg(argument);
        } else {
            command.arg(substitute(argument, paths));
        }
    }
    if location.named || location.dir.exists() {
        let dir = std::path::absolute(&location.dir).unwrap_or_else(|_| location.dir.clone());
        command.env(STORE_ENV, dir);
        // A value that is set stays.
        if std::env::var_os(PATCH_ENV).is_none() {
            command.env(PATCH_ENV, "1");
        }
    }
    let error = command.exec();
    let exists = error.kind() != ErrorKind::NotFound && is_there(program);
    let code = if exists {
        Code::NotExecutable
    } else {
        Code::NotFound
    };
    Error::message(
        code,
        format_args!("cannot run `{}`: {error}", program.display()),
    )
}

/// Returns true if there is such a program. The kernel answers "permission denied" even if only one
/// directory in PATH cannot be searched.
fn is_there(program: &OsStr) -> bool {
    if program.as_bytes().contains(&b'/') {
        return true;
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).exists())
}

/// Replaces `{}` and `{1}` with the first path, `{2}` with the second, and so on. Numbers without a
/// path stay: they may be anything, e.g. a part of a regular expression.
fn substitute(argument: &OsStr, paths: &[PathBuf]) -> OsString {
    let mut out = Vec::new();
    let mut rest = argument.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'{'
            && let Some(end) = tail.iter().position(|&b| b == b'}')
            && let Some(path) = numbered(&tail[..end], paths)
        {
            out.extend(path.as_os_str().as_bytes());
            rest = &tail[end + 1..];
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    OsString::from_vec(out)
}

fn numbered<'a>(digits: &[u8], paths: &'a [PathBuf]) -> Option<&'a PathBuf> {
    if digits.is_empty() {
        return paths.first();
    }
    let number: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
    paths.get(number.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_become_paths() {
        let paths = [PathBuf::from("/a"), PathBuf::from("/b")];
        let cases = [
            ("{}", "/a"),
            ("--model={}", "--model=/a"),
            ("{1}:{2}:{}", "/a:/b:/a"),
            ("x{3}y{0}", "x{3}y{0}"),
            ("{", "{"),
            ("{\"a\": {}}", "{\"a\": /a}"),
            ("", ""),
        ];
        for (argument, expected) in cases {
            assert_eq!(substitute(OsStr::new(argument), &paths), expected);
        }
    }
}
