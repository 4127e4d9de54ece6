//! Detection of the cgroup hierarchy from the mounts and this process's own cgroup.

use std::path::{Path, PathBuf};

use tetris_conventions::cgroup::{Mount, own_path};

use super::error::{CgroupError, read};

/// Parent directories of the profiler's cgroups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Hierarchy {
    /// Version 1: a hierarchy per controller.
    V1 {
        cpu: PathBuf,
        cpuset: PathBuf,
        memory: PathBuf,
    },
    /// Version 2: one hierarchy. Children of `parent` have `cpu` and `memory`; `cpuset` is true if
    /// they also have that controller.
    V2 { parent: PathBuf, cpuset: bool },
}

impl Hierarchy {
    /// Detects the hierarchy of this process. `parent` is a path from the hierarchies' roots. By
    /// default it is the process's own cgroup; in version 2, its nearest ancestor that delegates
    /// the controllers.
    pub(crate) fn of_this_process(parent: Option<&Path>) -> Result<Self, CgroupError> {
        let mounts = read(Path::new("/proc/self/mountinfo"))?;
        let groups = read(Path::new("/proc/self/cgroup"))?;
        let controllers =
            |dir: &Path, file: &str| std::fs::read_to_string(dir.join(file)).unwrap_or_default();
        Self::detect(&mounts, &groups, parent, controllers)
    }

    /// Detects the hierarchy from the text of `/proc`; `controllers` reads a file of a cgroup that
    /// lists controllers.
    pub(super) fn detect(
        mountinfo: &str,
        own: &str,
        parent: Option<&Path>,
        controllers: impl Fn(&Path, &str) -> String,
    ) -> Result<Self, CgroupError> {
        let mounts: Vec<_> = mountinfo.lines().filter_map(Mount::parse).collect();
        let v1 = |controller| v1_dir(&mounts, own, parent, controller);
        if let (Some(cpu), Some(cpuset), Some(memory)) = (v1("cpu"), v1("cpuset"), v1("memory")) {
            return Ok(Self::V1 {
                cpu,
                cpuset,
                memory,
            });
        }
        let Some(mount) = mounts.iter().find(|mount| mount.kind == "cgroup2") else {
            let reason = "no mounted hierarchy has them".to_owned();
            return Err(CgroupError::None { reason });
        };
        let start = parent.map_or_else(
            || mount.dir_of(own_path(own, "").unwrap_or("/")),
            |parent| mount.below(parent),
        );
        Self::v2(mount, &start, controllers)
    }

    /// Returns the nearest cgroup from `start` upwards that delegates the controllers.
    fn v2(
        mount: &Mount<'_>,
        start: &Path,
        controllers: impl Fn(&Path, &str) -> String,
    ) -> Result<Self, CgroupError> {
        let has = |dir: &Path, name: &str| {
            let listed = controllers(dir, "cgroup.subtree_control");
            listed
                .split_ascii_whitespace()
                .any(|controller| controller == name)
        };
        let mut candidates = start
            .ancestors()
            .take_while(|dir| dir.starts_with(mount.point));
        let parent = candidates.find(|dir| has(dir, "cpu") && has(dir, "memory"));
        let Some(found) = parent else {
            let reason = format!("searched `{}` and above", start.display());
            return Err(CgroupError::None { reason });
        };
        Ok(Self::V2 {
            parent: found.to_owned(),
            cpuset: has(found, "cpuset"),
        })
    }

    /// Returns the parent directories, without duplicates.
    pub(super) fn parents(&self) -> Vec<&Path> {
        let mut parents: Vec<&Path> = match self {
            Self::V1 {
                cpu,
                cpuset,
                memory,
            } => vec![cpu, cpuset, memory],
            Self::V2 { parent, .. } => vec![parent],
        };
        parents.sort_unstable();
        parents.dedup();
        parents
    }
}

fn v1_dir(
    mounts: &[Mount<'_>],
    own: &str,
    parent: Option<&Path>,
    controller: &str,
) -> Option<PathBuf> {
    let has = |mount: &&Mount<'_>| {
        mount.kind == "cgroup" && mount.options.split(',').any(|option| option == controller)
    };
    let mount = mounts.iter().find(has)?;
    Some(match parent {
        Some(parent) => mount.below(parent),
        None => mount.dir_of(own_path(own, controller)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
25 30 0:22 / /proc rw - proc proc rw
31 25 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct
33 31 0:28 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset
34 31 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
35 31 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
";
    const V1_OWN: &str = "9:cpuset:/\n4:memory:/batch/a b\n2:cpu,cpuacct:/batch\n0::/x\n";
    const V2_MOUNTS: &str =
        "30 1 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

    fn none(_: &Path, _: &str) -> String {
        String::new()
    }

    #[test]
    fn version_1_has_a_directory_per_controller() {
        let hierarchy = Hierarchy::detect(V1_MOUNTS, V1_OWN, None, none).unwrap();
        let expected = Hierarchy::V1 {
            cpu: "/sys/fs/cgroup/cpu,cpuacct/batch".into(),
            cpuset: "/sys/fs/cgroup/cpuset".into(),
            memory: "/sys/fs/cgroup/memory/batch/a b".into(),
        };
        assert_eq!(hierarchy, expected);
        let named = Hierarchy::detect(V1_MOUNTS, V1_OWN, Some(Path::new("/p/q")), none).unwrap();
        assert!(named.parents().iter().all(|dir| dir.ends_with("p/q")));
    }

    #[test]
    fn version_2_takes_the_nearest_cgroup_that_hands_its_controllers_down() {
        let group = "0::/user.slice/session.scope\n";
        let controllers = |dir: &Path, _: &str| {
            let listed = match dir.to_str().unwrap() {
                "/sys/fs/cgroup" => "cpuset cpu io memory pids",
                "/sys/fs/cgroup/user.slice" => "cpu memory pids",
                _ => "",
            };
            listed.to_owned()
        };
        let hierarchy = Hierarchy::detect(V2_MOUNTS, group, None, controllers).unwrap();
        let expected = Hierarchy::V2 {
            parent: "/sys/fs/cgroup/user.slice".into(),
            cpuset: false,
        };
        assert_eq!(hierarchy, expected);
        let error = Hierarchy::detect(V2_MOUNTS, group, None, none).unwrap_err();
        assert!(error.to_string().contains("session.scope"), "{error}");
    }

    #[test]
    fn a_container_sees_its_cgroup_as_the_root_of_the_mount() {
        let mounts = "30 1 0:26 /docker/7f /sys/fs/cgroup ro - cgroup2 cgroup2 rw\n";
        let all = |_: &Path, _: &str| "cpu memory cpuset".to_owned();
        for own in ["0::/docker/7f\n", "0::/\n", "0::/../..\n"] {
            let hierarchy = Hierarchy::detect(mounts, own, None, all).unwrap();
            assert_eq!(hierarchy.parents(), [Path::new("/sys/fs/cgroup")], "{own}");
        }
        assert!(Hierarchy::detect("", "0::/\n", None, all).is_err());
    }
}
