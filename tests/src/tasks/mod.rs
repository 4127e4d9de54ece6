//! The worker's side of each task.

mod collect;
mod crash;
mod daemon;
mod limit;
mod listen;
mod load;
mod locks;
mod owner;
mod race;
mod torture;

use anyhow::Context;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use serde::Serialize;
use tetris_store_layout::{CreateOptions, Store};

use crate::process::{RESULT, ready_and_wait, say};
use crate::task::{Job, Task};

/// Runs `job`.
pub fn run(job: &Job) -> anyhow::Result<()> {
    if let Some(uid) = job.uid {
        become_user(uid).with_context(|| format!("become user {uid}"))?;
    }
    match &job.task {
        Task::Crash(task) => crash::run(task),
        Task::Race(task) => race::run(task),
        Task::Create { store } => {
            ready_and_wait()?;
            let store = Store::create(store, &CreateOptions::default())?;
            answer(&store.id().to_string())
        }
        Task::Load(task) => load::run(task),
        Task::Contend { store, rounds } => owner::contend(store, *rounds),
        Task::Torture(task) => torture::run(task),
        Task::Collect { store, events } => collect::run(store, events),
        Task::Daemon { config, events } => daemon::run(config, events),
        Task::Locks(task) => locks::run(task),
        Task::Owner { store } => owner::run(store),
    }
}

/// In the worker and not by its parent: another user may not be allowed to reach the
/// program.
fn become_user(uid: u32) -> anyhow::Result<()> {
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(uid));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    Ok(())
}

fn answer<T: Serialize>(result: &T) -> anyhow::Result<()> {
    say(&format!("{RESULT}{}", serde_json::to_string(result)?))
}
