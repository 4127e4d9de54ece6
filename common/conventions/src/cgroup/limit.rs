//! Memory limit of this process's cgroup.

use std::path::{Path, PathBuf};

use super::mount::{Mount, own_path};

/// Least value that means no limit: version 1 shows the largest number of whole pages.
const NONE: u64 = 1 << 60;

/// Files with a limit of version 2. Beyond `memory.high` the kernel ends nothing, but slows down whatever allocates: a
/// budget that exceeds it is of no use.
const VERSION_2: &[&str] = &["memory.max", "memory.high"];
const VERSION_1: &[&str] = &["memory.limit_in_bytes"];

/// Returns the memory limit of this process in bytes: the smallest one of its cgroup and the visible
/// ancestors, hard or soft. Returns `None` without a limit, or without a cgroup.
pub fn memory_limit() -> Option<u64> {
    let read = |path: &Path| std::fs::read_to_string(path).ok();
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    let groups = read(Path::new("/proc/self/cgroup"))?;
    limit(&mounts, &groups, read)
}

/// Returns the limit by the text of `/proc`; `read` reads a file of a cgroup.
fn limit(mountinfo: &str, own: &str, read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let mounts: Vec<_> = mountinfo.lines().filter_map(Mount::parse).collect();
    // On a host with both versions, the memory controller is in one of them.
    let limits = mounts.iter().filter_map(|mount| {
        let (dir, files) = place(mount, own)?;
        let dirs = dir
            .ancestors()
            .take_while(|dir| dir.starts_with(mount.point));
        let paths = dirs.flat_map(|dir| files.iter().map(|file| dir.join(file)));
        paths.filter_map(|path| bytes(&read(&path)?)).min()
    });
    limits.min()
}

/// Returns the directory of the process's cgroup in `mount`, and the names of files with limits.
fn place(mount: &Mount<'_>, own: &str) -> Option<(PathBuf, &'static [&'static str])> {
    if mount.kind == "cgroup2" {
        let path = own_path(own, "").unwrap_or("/");
        return Some((mount.dir_of(path), VERSION_2));
    }
    let mut options = mount.options.split(',');
    let path = options
        .any(|option| option == "memory")
        .then(|| own_path(own, "memory"))??;
    Some((mount.dir_of(path), VERSION_1))
}

/// Parses a limit. The text "max" and numbers beyond any memory are none.
fn bytes(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < NONE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
33 31 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
34 31 0:29 /pod/7f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
35 31 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    const V2: &str = "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn found(mounts: &str, own: &str, files: &[(&str, &str)]) -> Option<u64> {
        limit(mounts, own, |path| {
            let mut files = files.iter();
            let file = files.find(|(name, _)| Path::new(name) == path)?;
            Some(file.1.to_owned())
        })
    }

    #[test]
    fn version_2_takes_the_smallest_limit_up_to_the_root() {
        let group = "0::/pod/container\n";
        let files = [
            ("/sys/fs/cgroup/pod/container/memory.max", "max\n"),
            ("/sys/fs/cgroup/pod/memory.max", "268435456\n"),
            ("/memory.max", "1\n"),
        ];
        assert_eq!(found(V2, group, &files), Some(256 << 20));
        let inner = ("/sys/fs/cgroup/pod/container/memory.max", "1000\n");
        assert_eq!(found(V2, group, &[inner, files[1]]), Some(1_000));
        assert_eq!(found(V2, group, &files[..1]), None);
        assert_eq!(
            found(V2, "0::/\n", &[("/sys/fs/cgroup/memory.max", "77")]),
            Some(77)
        );
    }

    #[test]
    fn a_soft_limit_of_version_2_counts_where_it_is_the_smaller_one() {
        let group = "0::/pod/container\n";
        let hard = ("/sys/fs/cgroup/pod/container/memory.max", "1000\n");
        let high = |bytes| [hard, ("/sys/fs/cgroup/pod/container/memory.high", bytes)];
        assert_eq!(found(V2, group, &high("900\n")), Some(900));
        assert_eq!(found(V2, group, &high("1100\n")), Some(1_000));
        assert_eq!(found(V2, group, &high("max\n")), Some(1_000));
    }

    #[test]
    fn version_1_reads_the_controllers_mount() {
        let groups = "4:memory:/pod/7f\n2:cpu:/pod/7f\n0::/\n";
        let file = "/sys/fs/cgroup/memory/memory.limit_in_bytes";
        assert_eq!(found(V1, groups, &[(file, "536870912\n")]), Some(512 << 20));
        assert_eq!(found(V1, groups, &[(file, "9223372036854771712\n")]), None);
    }

    #[test]
    fn without_a_readable_limit_there_is_none() {
        for (mounts, own) in [("", ""), (V2, ""), (V1, "0::/x\n"), ("x", "y")] {
            assert_eq!(found(mounts, own, &[]), None);
        }
        assert_eq!(
            found(V2, "0::/\n", &[("/sys/fs/cgroup/memory.max", "many")]),
            None
        );
    }
}
