//! The search for the processes that hold objects.

use std::collections::{HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use nix::unistd::{Uid, User};
use tetris_store_layout::{IoError, ObjectEntry, ObjectRef, Store};

use super::cgroup::Container;
use super::pod_names::PodNames;
use super::process::{FileKey, Process};

/// Longest search that the command makes.
pub const SCAN_LIMIT: Duration = Duration::from_secs(10);

/// A process, for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessInfo {
    /// Its process id.
    pub pid: u32,
    /// Name of its program. The process chooses it: any characters.
    pub command: String,
    /// Its effective user id; `None` when the process ended meanwhile.
    pub uid: Option<u32>,
    /// Name of that user, if it has one here.
    pub user: Option<String>,
    /// Its pod, container and service.
    pub container: Container,
}

/// A process that holds objects.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderProcess {
    /// The process.
    pub info: ProcessInfo,
    /// The objects that it holds, in the order of the search.
    pub objects: Vec<ObjectRef>,
}

/// A process that publishes objects at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LoadingProcess {
    /// The process.
    pub info: ProcessInfo,
    /// Number of objects that it is writing.
    pub objects: u64,
    /// Their bytes, written or not.
    pub bytes: u64,
}

impl HolderProcess {
    /// Bytes of the objects that it holds.
    pub fn bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.len).sum()
    }
}

/// The processes that hold objects, as far as this process may see.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderProcesses {
    /// The processes, those with the most bytes first.
    pub processes: Vec<HolderProcess>,
    /// Number of processes of other users, which this process may not look into.
    pub hidden: u64,
    /// Number of processes for which no time was left.
    pub skipped: u64,
}

impl HolderProcesses {
    /// The processes that hold `object`.
    pub fn of<'a>(&'a self, object: &'a ObjectRef) -> impl Iterator<Item = &'a HolderProcess> {
        let holds = move |process: &&HolderProcess| process.objects.contains(object);
        self.processes.iter().filter(holds)
    }

    /// The processes that hold any of `objects`, each with those of them that it holds.
    pub fn among(&self, objects: impl IntoIterator<Item = ObjectRef>) -> Vec<HolderProcess> {
        let wanted: HashSet<ObjectRef> = objects.into_iter().collect();
        let some = self.processes.iter().filter_map(|process| {
            let mut process = process.clone();
            process.objects.retain(|object| wanted.contains(object));
            (!process.objects.is_empty()).then_some(process)
        });
        some.collect()
    }
}

/// The processes that hold any of `objects`. Takes at most `limit`, some 50 us a process; `progress` is
/// called with processes looked at and of their number.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn processes_of(
    objects: &[ObjectEntry],
    limit: Duration,
    mut progress: impl FnMut(usize, usize),
) -> Result<HolderProcesses, IoError> {
    let begun = Instant::now();
    let mut processes = HolderProcesses::default();
    let key = |entry: &ObjectEntry| (entry.device, entry.inode);
    let wanted: HashSet<FileKey> = objects.iter().map(key).collect();
    if wanted.is_empty() {
        return Ok(processes);
    }
    let all = Process::all().map_err(|error| IoError::new("list", "/proc", error))?;
    let mut describe = Describe::default();
    for (done, process) in all.iter().enumerate() {
        if begun.elapsed() >= limit {
            processes.skipped = (all.len() - done) as u64;
            break;
        }
        progress(done, all.len());
        match process.held(&wanted) {
            Ok(held) if held.is_empty() => {}
            Ok(held) => {
                let of_process = objects.iter().filter(|entry| held.contains(&key(entry)));
                let objects = of_process.map(|entry| entry.object).collect();
                let info = describe.process(process);
                processes.processes.push(HolderProcess { info, objects });
            }
            Err(error) => processes.hidden += u64::from(is_hidden(&error)),
        }
    }
    let order = |process: &HolderProcess| (std::cmp::Reverse(process.bytes()), process.info.pid);
    processes.processes.sort_by_key(order);
    Ok(processes)
}

/// The processes that write objects of `store` at this moment, as far as this process may see, by their
/// unnamed files (LAYOUT.md 5.1, P1). Takes at most `limit`.
///
/// # Errors
/// When `/proc` cannot be listed.
pub fn loading_processes(store: &Store, limit: Duration) -> Result<Vec<LoadingProcess>, IoError> {
    let begun = Instant::now();
    let all = Process::all().map_err(|error| IoError::new("list", "/proc", error))?;
    let mut describe = Describe::default();
    let mut loading = Vec::new();
    for process in all.iter().take_while(|_| begun.elapsed() < limit) {
        let staged = process.staged(store.root());
        if !staged.is_empty() {
            loading.push(LoadingProcess {
                info: describe.process(process),
                objects: staged.len() as u64,
                bytes: staged.values().sum(),
            });
        }
    }
    Ok(loading)
}

/// Returns true if the process is there and another's. One that ended meanwhile, and threads of the
/// kernel, hold nothing.
fn is_hidden(error: &io::Error) -> bool {
    error.kind() == ErrorKind::PermissionDenied
}

/// Names of users and pods, each looked up once.
#[derive(Debug, Default)]
struct Describe {
    users: HashMap<u32, Option<String>>,
    pods: Option<PodNames>,
}

impl Describe {
    fn process(&mut self, process: &Process) -> ProcessInfo {
        let uid = process.uid();
        let mut container = process.container();
        if let Some(pod) = &mut container.pod {
            self.pods
                .get_or_insert_with(PodNames::of_node)
                .complete(pod);
        }
        ProcessInfo {
            pid: process.pid,
            command: process.command(),
            uid,
            user: uid.and_then(|uid| self.user(uid)),
            container,
        }
    }

    fn user(&mut self, uid: u32) -> Option<String> {
        let look_up = || Some(User::from_uid(Uid::from_raw(uid)).ok()??.name);
        self.users.entry(uid).or_insert_with(look_up).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_store_layout::{Access, CreateOptions, Store};

    #[test]
    fn this_process_is_found_by_its_mapping_until_it_ends() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let mapped = store.publish(&[1; 5000], Access::ReadOnly).unwrap();
        let free = store.publish(&[2; 5000], Access::ReadOnly).unwrap();
        drop(free.mapping);
        let objects = store.objects().unwrap().objects;
        let search = || processes_of(&objects, SCAN_LIMIT, |_, _| ()).unwrap();
        let processes = search();
        let users: Vec<_> = processes.of(&mapped.object).collect();
        assert_eq!(users.len(), 1, "{processes:?}");
        assert_eq!(users[0].info.pid, std::process::id());
        assert_eq!(users[0].info.uid, Some(nix::unistd::geteuid().as_raw()));
        assert_eq!(users[0].objects, [mapped.object]);
        assert_eq!(users[0].bytes(), 5000);
        assert!(!users[0].info.command.is_empty());
        assert_eq!(processes.of(&free.object).count(), 0);
        drop(mapped.mapping);
        assert_eq!(search().processes, []);
    }

    #[test]
    fn a_load_is_seen_by_its_unnamed_file() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let in_this_process = || {
            let loading = loading_processes(&store, SCAN_LIMIT).unwrap();
            let ours = loading
                .into_iter()
                .filter(|entry| entry.info.pid == std::process::id());
            ours.map(|process| (process.objects, process.bytes))
                .collect::<Vec<_>>()
        };
        let other = tempfile::tempdir_in("/dev/shm").unwrap();
        let other = Store::create(other.path(), &CreateOptions::default()).unwrap();
        let _elsewhere = other.stage(5_000).unwrap();
        assert_eq!(in_this_process(), []);
        let staging = store.stage(6_000).unwrap();
        assert_eq!(in_this_process(), [(1, 6_000)]);
        drop(staging);
        assert_eq!(in_this_process(), []);
    }

    #[test]
    fn a_search_without_time_says_what_it_left_out() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let _held = store.publish(&[1; 5000], Access::ReadOnly).unwrap();
        let objects = store.objects().unwrap().objects;
        let processes = processes_of(&objects, Duration::ZERO, |_, _| ()).unwrap();
        assert!(
            processes.skipped > 0 && processes.processes.is_empty(),
            "{processes:?}"
        );
        let nothing = processes_of(&[], Duration::ZERO, |_, _| ()).unwrap();
        assert_eq!(nothing, HolderProcesses::default());
    }
}
