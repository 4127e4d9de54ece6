//! The store that a process finds: by its environment, in its mount namespace, with its rights.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statvfs::{FsFlags, statvfs};
use tetris_loader::{PrivateCause, Words};
use tetris_store_layout::{Store, is_idmapped_in};

use super::environment::Environment;
use super::folder::ProcessFolder;
use crate::doctor::check::Check;
use crate::doctor::store::{Publishing, SeenStore};
use tetris_agent::daemon::DaemonClient;
use tetris_agent::store_location::{MOUNT_POINT, SHM_DIR};

/// Longest wait for the daemon's greeting.
const GREETING: Duration = Duration::from_secs(5);

/// The store of a process.
#[derive(Debug)]
pub(super) struct StoreView {
    /// The directory, by its name in the process's mount namespace.
    pub(super) dir: PathBuf,
    /// True if the environment names it.
    pub(super) named: bool,
    pub(super) state: StoreState,
}

/// The state of a store for a process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StoreState {
    /// It can be used.
    Usable {
        /// The store's identifier.
        id: String,
        publishing: Publishing,
        /// The cause for which unknown models are private, if they are.
        cause: Option<PrivateCause>,
    },
    /// It cannot be used, for this cause.
    Unusable(PrivateCause),
    /// This user may not look.
    Hidden(String),
}

impl StoreView {
    /// The store of the process whose effective user is `user`.
    pub(super) fn of(folder: &ProcessFolder, environment: &Environment, user: u32) -> Self {
        let named = environment.store().map(PathBuf::from);
        if let Err(error) = std::fs::metadata(folder.path("root")) {
            let path = folder.path("root");
            return Self {
                named: named.is_some(),
                dir: named.unwrap_or_else(|| MOUNT_POINT.into()),
                state: StoreState::Hidden(format!(
                    "cannot look into `{}`: {error}",
                    path.display()
                )),
            };
        }
        match named {
            Some(dir) => Self::look(folder, dir, true, user),
            None => Self::default_of(folder, user),
        }
    }

    /// The default store, chosen as [`StoreLocation`](tetris_agent::store_location::StoreLocation) does.
    fn default_of(folder: &ProcessFolder, user: u32) -> Self {
        let look = |dir: &str| Self::look(folder, dir.into(), false, user);
        let mounted = look(MOUNT_POINT);
        let is_store = !matches!(
            mounted.state,
            StoreState::Unusable(PrivateCause::NoStore | PrivateCause::NotAStore)
        );
        if is_store && mounted.publishes() {
            return mounted;
        }
        let shm = look(SHM_DIR);
        let is_better = matches!(&shm.state, StoreState::Usable { publishing, .. } if *publishing == Publishing::Own);
        if is_store && !is_better { mounted } else { shm }
    }

    fn publishes(&self) -> bool {
        matches!(&self.state, StoreState::Usable { publishing, .. } if *publishing != Publishing::Impossible)
    }

    fn look(folder: &ProcessFolder, dir: PathBuf, named: bool, user: u32) -> Self {
        let state = state_of(folder, &dir, named, user);
        Self { dir, named, state }
    }

    /// The store, beside the one that is looked at.
    pub(super) fn check(&self, seen: &SeenStore) -> Check {
        let how = if self.named {
            "named by its environment"
        } else {
            "its default"
        };
        let dir = self.dir.display();
        let check = match &self.state {
            StoreState::Usable { id, cause, .. } => {
                let store_id = seen.open().map(|open| open.store.id().to_string());
                let same = store_id.as_ref() == Some(id);
                let which = if same {
                    "the store above"
                } else {
                    "another store than the one above"
                };
                let found = format!("`{dir}`, {how}: {which}");
                let check = match cause {
                    None if same => Check::ok("its store", found),
                    None => Check::note("its store", found).remedy(format_args!(
                        "name it with --store, as it is reached from here: /proc/PID/root{dir}"
                    )),
                    Some(cause) => {
                        of_cause(format!("{found}; {}", cause.sentence()), *cause, &self.dir)
                    }
                };
                check.fact("id", id.as_str()).fact("same", same)
            }
            StoreState::Unusable(cause) => of_cause(
                format!("`{dir}`, {how}, cannot be used: {}", cause.sentence()),
                *cause,
                &self.dir,
            ),
            StoreState::Hidden(why) => Check::note("its store", format!("not known: {why}")),
        };
        check.fact("directory", self.dir.to_string_lossy())
    }

    /// The cause for which its unknown models are private, if they are.
    pub(super) fn cause(&self) -> Option<PrivateCause> {
        match &self.state {
            StoreState::Usable { cause, .. } => *cause,
            StoreState::Unusable(cause) => Some(*cause),
            StoreState::Hidden(_) => None,
        }
    }
}

fn of_cause(found: String, cause: PrivateCause, dir: &Path) -> Check {
    Check::warning("its store", found)
        .expected("a store that the process can use")
        .remedy(cause.remedy(Words::of_process(), dir))
        .fact("cause", cause.code())
}

/// `dir` is the store's path for the process.
fn state_of(folder: &ProcessFolder, dir: &Path, named: bool, user: u32) -> StoreState {
    let seen = &*folder.seen_from_here(dir);
    let owner = match std::fs::metadata(seen) {
        Ok(metadata) => metadata.uid(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return StoreState::Unusable(PrivateCause::NoStore);
        }
        Err(error) => return StoreState::Hidden(format!("`{}`: {error}", seen.display())),
    };
    // Of its mount namespace, not of this one's.
    let hides_owner = || {
        let mounts = folder.read("mountinfo").unwrap_or_default();
        File::open(seen).is_ok_and(|dir| is_idmapped_in(&mounts, &dir))
    };
    if !named && owner != 0 && owner != user && !hides_owner() {
        return StoreState::Unusable(PrivateCause::NotTrusted { owner });
    }
    let store = match Store::open(seen) {
        Ok(store) => store,
        Err(error) => return StoreState::Unusable(PrivateCause::of_open(&error)),
    };
    // The rights of that process, not of this one.
    let owner = store.owner().unwrap_or(owner);
    let mount = statvfs(seen).map(|stat| stat.flags());
    let read_only = mount.is_ok_and(|flags| flags.contains(FsFlags::ST_RDONLY));
    let writable = !read_only && (user == owner || user == 0);
    let daemon = DaemonClient::of_store(&store, GREETING).version();
    let publishing = Publishing::of(writable, &daemon);
    let cause = match (publishing, &daemon) {
        (Publishing::Impossible, Err(error)) if !error.is_absent() => {
            Some(PrivateCause::DaemonSilent)
        }
        (Publishing::Impossible, _) if store.daemon_socket().exists() => {
            Some(PrivateCause::NoDaemon)
        }
        (Publishing::Impossible, _) if read_only => Some(PrivateCause::ReadOnly),
        (Publishing::Impossible, _) => Some(PrivateCause::NotMine { owner }),
        _ => None,
    };
    StoreState::Usable {
        id: store.id().to_string(),
        publishing,
        cause,
    }
}
