//! Leftovers of a killed test process: its containers and images, the hosts that it mounted, and its files on the disk.

use std::path::Path;
use std::sync::Once;

use crate::docker::{DISK, LABEL, docker, try_docker};
use crate::host::{HOSTS, unmount};

/// Once for each process.
pub fn sweep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let filter = format!("label={LABEL}");
        let format = format!("{{{{.ID}}}} {{{{.Label \"{LABEL}\"}}}}");
        let listed = docker(&["ps", "--all", "--filter", &filter, "--format", &format]);
        for line in listed.lines() {
            if let Some((id, pid)) = line.split_once(' ')
                && is_dead(pid)
            {
                let _gone = try_docker(&["rm", "--force", id]);
            }
        }
        let images = docker(&["images", "--format", "{{.Repository}}"]);
        for image in images.lines().filter(|name| of_dead(name)) {
            let _gone = try_docker(&["rmi", "--force", image]);
        }
        for entry in std::fs::read_dir(HOSTS).unwrap().flatten() {
            if entry.file_name().to_str().is_some_and(of_dead) {
                unmount(&entry.path());
            }
        }
        for entry in std::fs::read_dir(DISK).unwrap().flatten() {
            if entry.file_name().to_str().is_some_and(of_dead) {
                let _removed = std::fs::remove_dir_all(entry.path());
            }
        }
    });
}

/// As [`unique`](crate::docker::unique) makes names.
fn of_dead(name: &str) -> bool {
    let pid = name
        .strip_prefix("tetris-test-")
        .and_then(|rest| rest.split('-').next());
    pid.is_some_and(is_dead)
}

fn is_dead(pid: &str) -> bool {
    pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists()
}
