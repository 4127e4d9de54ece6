//! A process, seen from outside: the objects that it maps, its private memory, and the reason for
//! that as far as it can be known.

mod environment;
mod folder;
mod memory;
mod shared;
mod smaps;
mod store_view;
mod verdict;

use std::io::{Error, ErrorKind};

use nix::unistd::geteuid;
use tetris_units::size::Bytes;

use super::check::{Check, Section};
use super::store::SeenStore;
use super::users;
use environment::Environment;
use folder::{ProcessFolder, Status};
use memory::Memory;
use store_view::StoreView;

/// The checks of the process `pid`.
pub(super) fn section(pid: u32, seen: &SeenStore) -> Section {
    of_folder(&ProcessFolder::of(pid), seen)
}

fn of_folder(folder: &ProcessFolder, seen: &SeenStore) -> Section {
    let mut section = Section::new("process", Some(folder.pid().to_string()));
    match look(folder, seen) {
        Ok(checks) => section.checks = checks,
        Err(check) => section.checks.push(*check),
    }
    section
}

fn look(folder: &ProcessFolder, seen: &SeenStore) -> Result<Vec<Check>, Box<Check>> {
    let status = folder
        .status()
        .map_err(|error| Box::new(missing(folder, &error)))?;
    let failed = |error: Error| Box::new(unreadable(folder, &status, &error));
    let regions = smaps::parse(&folder.read("smaps").map_err(failed)?);
    let environment = Environment::parse(&folder.read("environ").map_err(failed)?);
    let memory = Memory::of(&regions, seen.open());
    let view = StoreView::of(folder, &environment, status.user);
    let mut checks = vec![introduce(folder, &status), environment.check()];
    checks.push(view.check(seen));
    checks.extend(shared::checks(&memory, seen.open()));
    checks.push(memory.files_check());
    checks.push(memory.anonymous_check());
    checks.extend(verdict::checks(&verdict::Evidence {
        memory: &memory,
        environment: &environment,
        view: &view,
        program: folder.program(),
    }));
    Ok(checks)
}

fn introduce(folder: &ProcessFolder, status: &Status) -> Check {
    let user = users::name(status.user);
    let found = format!("`{}` of {user}", status.name);
    let check = if status.is_zombie {
        Check::note(
            "process",
            format!("{found}; it has ended, and has no memory any more"),
        )
    } else {
        Check::ok("process", found)
    };
    let program = folder
        .program()
        .map(|path| path.to_string_lossy().into_owned());
    check
        .fact("pid", folder.pid())
        .fact("user", status.user)
        .fact("program", program)
}

fn missing(folder: &ProcessFolder, error: &Error) -> Check {
    let pid = folder.pid();
    let found = match error.kind() {
        ErrorKind::NotFound => format!("there is no process {pid} in this PID namespace"),
        _ => format!("cannot read {}: {error}", folder.path("status").display()),
    };
    Check::failure("process", found)
        .expected("a process that runs")
        .remedy("run `ps -e`, and this on the node for a process in a container")
}

fn unreadable(folder: &ProcessFolder, status: &Status, error: &Error) -> Check {
    let pid = folder.pid();
    // Its end, since its status was read.
    if error.kind() == ErrorKind::NotFound || error.raw_os_error() == Some(nix::libc::ESRCH) {
        return missing(folder, &ErrorKind::NotFound.into());
    }
    let user = users::name(geteuid().as_raw());
    let found = format!(
        "{user} may not look into `{}` of {}: {error}",
        status.name,
        users::name(status.user)
    );
    Check::failure("process", found)
        .expected("root, or the process's own user (kernel.yama.ptrace_scope may need root)")
        .remedy(format_args!("run `sudo tetris doctor --pid {pid}`"))
}

/// `bytes` of something, in words: nothing for none.
fn amount(bytes: u64) -> String {
    if bytes == 0 {
        "nothing".to_owned()
    } else {
        Bytes(bytes).to_string()
    }
}

#[cfg(test)]
mod tests;
