//! The process `volumes`: mounts, volumes of pods, and registration with the kubelet.
//!
//! It is the one that has privileges, and reads nothing that a pod wrote. Its input is the
//! configuration, requests of the kubelet over sockets that root alone can reach, answers of
//! `cluster` about names and identifiers, the kernel's list of mounts, and answers of the collector of traces if there is one.
//!
//! # Guarantees
//! - Volumes come and go while the other processes are stopped, killed or absent: no answer of
//!   `broker` is waited for beyond a second, and only for a store that was just made.
//! - The stores belong to another user, whom it does not trust: below their mount it follows no
//!   link, makes files with that user's rights alone, and changes the owner of sockets alone.

mod keeper;
mod namespaces;
mod serve;
mod sockets;
mod state;
mod wanted;

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::fs::{CWD, Mode, OFlags, fchown, fstat, openat};
use rustix::process::{Gid, Uid};
use tetris_service_kit::shutdown::signals;
use tetris_service_kit::traces::while_exporting;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::reporter::send_reports;
use super::traces;
use crate::config::{Config, ConfigFlags};
use crate::mount;
use crate::process::Process;
use crate::report::ErrorClass;

use sockets::SocketGiver;
use state::VolumesState;
use wanted::WantedVolumes;

/// Runs until SIGTERM or SIGINT. SIGHUP reads the configuration again; a wrong one is logged and
/// changes nothing. Mounts and stores stay.
///
/// # Errors
/// When the configuration is wrong, or there is no tmpfs for the stores.
pub async fn run(flags: &ConfigFlags) -> Result<()> {
    let config = flags.load()?;
    let via = traces::via(Process::Volumes, &config.file.processes)?;
    while_exporting(via, serve(flags, config)).await
}

async fn serve(flags: &ConfigFlags, config: Config) -> Result<()> {
    let mut signaled = pin!(signals()?);
    let mut hang_up = signal(SignalKind::hangup())?;
    let state = Arc::new(VolumesState::new());
    prepare(&config, &state).context("there is nothing to keep stores on")?;
    let (stop, stopped) = watch::channel(false);
    let (wanted, follows) = watch::channel(WantedVolumes::of(&config));
    let giver = SocketGiver::start(follows.clone());
    let _giver = giver.context("cannot start the thread that looks for sockets")?;
    let reports = tokio::spawn(send_reports(
        Process::Volumes,
        [Process::Broker, Process::Cluster]
            .map(|process| (process, config.file.processes.socket_of(process)))
            .into(),
        {
            let state = Arc::clone(&state);
            move || state.report()
        },
        state.changes(),
        stopped.clone(),
    ));
    let served = tokio::spawn(serve::follow(follows, Arc::clone(&state), stopped));
    loop {
        tokio::select! {
            () = &mut signaled => break,
            _ = hang_up.recv() => if let Some(new) = reload(flags, &config) {
                if !is_moved(&config, &new) {
                    // Another process that starts can hold the lock of the mount for a while.
                    tokio::task::block_in_place(|| prepare_again(&new, &state));
                }
                let new = WantedVolumes::of(&new);
                wanted.send_if_modified(|old| {
                    let differs = *old != new;
                    *old = new;
                    differs
                });
            },
        }
    }
    tracing::info!("stopping");
    let _nobody_listens = stop.send(true);
    served.await.context("the CSI services failed")?;
    reports.await.context("the reports failed")
}

/// Mounts or adopts the tmpfs, if there is a table for it.
fn prepare(config: &Config, state: &VolumesState) -> Result<(), mount::MountError> {
    let Some(table) = &config.tables.mount else {
        return Ok(());
    };
    if let Some(cold) = &config.file.cold
        && let Err(error) = give_directory(&cold.path, table.user)
    {
        tracing::warn!(path = %cold.path.display(), %error, "no cold tier: its directory cannot be made for the stores' user");
    }
    let complain = || state.error(ErrorClass::Mount);
    mount::prepare(table, &config.file.stores, complain)
}

/// Makes a directory for `user` alone, where it is missing. Its parent is root's.
fn give_directory(path: &Path, user: u32) -> std::io::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
    made?;
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::RDONLY;
    let directory = openat(CWD, path, flags, Mode::empty())?;
    if fstat(&directory)?.st_uid == 0 && user != 0 {
        fchown(
            &directory,
            Some(Uid::from_raw(user)),
            Some(Gid::from_raw(user)),
        )?;
    }
    Ok(())
}

/// The same later, when a process that runs goes on after errors.
fn prepare_again(config: &Config, state: &VolumesState) {
    if let Err(error) = prepare(config, state) {
        tracing::error!(%error, "there is nothing to keep stores on");
        state.error(ErrorClass::Mount);
    }
}

/// Reads the configuration again; `None` if it is wrong.
fn reload(flags: &ConfigFlags, old: &Config) -> Option<Config> {
    let config = match flags.load() {
        Ok(config) => config,
        Err(error) => {
            for error in error.to_string().lines() {
                tracing::error!(
                    error,
                    "the new configuration is wrong; the one in force stays"
                );
            }
            return None;
        }
    };
    let user = |config: &Config| config.tables.mount.as_ref().map(|mount| mount.user);
    let changed = [
        ("mount.path", is_moved(old, &config)),
        ("mount.user", user(old) != user(&config)),
        ("processes", old.file.processes != config.file.processes),
    ];
    for (field, _) in changed.iter().filter(|(_, changed)| *changed) {
        tracing::warn!(
            field,
            "a change of this field takes force when the process is restarted"
        );
    }
    tracing::info!("configuration read again");
    Some(config)
}

/// Returns true if the tmpfs lies elsewhere by now. Stores that pods have mounted cannot move.
fn is_moved(old: &Config, new: &Config) -> bool {
    let path = |config: &Config| config.tables.mount.as_ref().map(|mount| mount.path.clone());
    path(old) != path(new)
}
