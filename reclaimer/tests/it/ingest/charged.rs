//! Accounting: the daemon is charged for all that it publishes, also where its memory is short.

use std::path::{Path, PathBuf};

use crate::ingest::ground::Ground;
use crate::ingest::process::{Daemon, Loaded, TENSOR_BYTES, TENSORS, client, model, outcome};
use tetris_test_support::skipped::skipped;

const ROOT: &str = "/sys/fs/cgroup";
const MIB: u64 = 1 << 20;
/// Far below the model's length.
const CLIENT_LIMIT: u64 = 40 * MIB;
const DAEMON_LIMIT: u64 = 512 * MIB;
/// Limit beyond which the daemon is slowed down: less than the model and the daemon's heap.
const DAEMON_HIGH: u64 = 96 * MIB;

/// A memory cgroup of version 2, removed when dropped.
struct Cgroup(PathBuf);

impl Cgroup {
    /// With this limit and no swap; the reason where there is none to be made.
    fn new(name: &str, limit: u64) -> Result<Self, String> {
        let root = Path::new(ROOT);
        let controllers = std::fs::read_to_string(root.join("cgroup.controllers"));
        if !controllers.is_ok_and(|all| all.split_whitespace().any(|entry| entry == "memory")) {
            return Err("there is no memory controller of cgroup v2".to_owned());
        }
        let failed = |what: &str, error: std::io::Error| format!("cannot {what}: {error}");
        std::fs::write(root.join("cgroup.subtree_control"), "+memory")
            .map_err(|error| failed("have the memory controller", error))?;
        let dir = root.join(format!("tetris-test-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).map_err(|error| failed("make a cgroup", error))?;
        let cgroup = Self(dir);
        cgroup.set("memory.max", limit);
        if cgroup.0.join("memory.swap.max").exists() {
            cgroup.set("memory.swap.max", 0);
        }
        Ok(cgroup)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    fn set(&self, file: &str, value: u64) {
        std::fs::write(self.0.join(file), value.to_string()).unwrap();
    }

    /// The value behind `key` in `file`.
    fn value(&self, file: &str, key: &str) -> u64 {
        let text = std::fs::read_to_string(self.0.join(file)).unwrap();
        let mut lines = text.lines().filter_map(|line| line.split_once(' '));
        let line = lines.find(|(name, _)| *name == key);
        let (_, value) = line.unwrap_or_else(|| panic!("no {key} in {text}"));
        value.parse().unwrap()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // What is charged to it stays with the cgroup above.
        let _processes_are_left = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn a_client_below_its_memory_limit_maps_more_than_the_limit_and_the_daemon_is_charged() {
    let Some(ground) = Ground::new(256) else {
        return;
    };
    let cgroups = Cgroup::new("daemon", DAEMON_LIMIT)
        .and_then(|daemon| Ok((daemon, Cgroup::new("client", CLIENT_LIMIT)?)));
    let (of_daemon, of_client) = match cgroups {
        Ok(cgroups) => cgroups,
        Err(reason) => return skipped(&reason),
    };
    let bytes = u64::from(TENSORS) * TENSOR_BYTES as u64;
    assert!(bytes > 2 * CLIENT_LIMIT);
    let file = model(&ground, 1);
    let daemon = Daemon::start_in(&ground, Some(of_daemon.path()), "");
    let loaded = outcome(client(&ground, &file, 1, Some(of_client.path())));
    assert_eq!(loaded, Loaded::Shared);
    assert_eq!(of_client.value("memory.events", "oom_kill"), 0);
    assert!(of_client.value("memory.stat", "shmem") < bytes / 10);
    let charged = of_daemon.value("memory.stat", "shmem");
    assert!(charged >= bytes, "{charged} of {bytes}");
    // The next one finds it there.
    let loaded = outcome(client(&ground, &file, 1, Some(of_client.path())));
    assert_eq!(loaded, Loaded::Shared);
    assert_eq!(of_client.value("memory.events", "oom_kill"), 0);
    drop(daemon);
}

#[test]
fn a_daemon_beyond_its_soft_limit_is_slowed_down_and_serves_on() {
    let Some(ground) = Ground::new(256) else {
        return;
    };
    let cgroup = match Cgroup::new("slowed", DAEMON_LIMIT) {
        Ok(cgroup) => cgroup,
        Err(reason) => return skipped(&reason),
    };
    cgroup.set("memory.high", DAEMON_HIGH);
    let daemon = Daemon::start_in(&ground, Some(cgroup.path()), "");
    let file = model(&ground, 1);
    // A load that would take too long ends in private memory. The client compares the bytes in any case.
    outcome(client(&ground, &file, 1, None));
    assert!(cgroup.value("memory.events", "high") > 0);
    assert_eq!(cgroup.value("memory.events", "oom_kill"), 0);
    // With room again, loads are shared again.
    cgroup.set("memory.high", DAEMON_LIMIT);
    assert_eq!(outcome(client(&ground, &file, 1, None)), Loaded::Shared);
    drop(daemon);
}
