//! Idmapping of pods' mounts: no user of a container owns a file of its store (LAYOUT.md 4).

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use serde::{Deserialize, Serialize};
use tetris_sandbox::idmap::IdMap;
use tetris_store_layout::SOCKET_USER;

/// Use of idmapped mounts, field `csi.idmap`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IdmapMode {
    /// Pods get idmapped mounts where the kernel has them.
    #[default]
    Auto,
    /// No mount is idmapped: for container runtimes that cannot take one as a volume.
    Off,
}

/// The map of pods' mounts, or the reason that there is none.
#[derive(Debug)]
pub(super) struct PodIds(Result<IdMap, NoIdMap>);

/// The reason that mounts of pods are not idmapped.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoIdMap {
    #[error("`csi.idmap` is `off`")]
    Off,
    #[error("no user namespace can be made ({0}); is `sysctl user.max_user_namespaces` 0?")]
    UserNamespace(#[source] io::Error),
    #[error("no tmpfs can be made for a trial: {0}")]
    Trial(#[source] io::Error),
    #[error("this kernel maps no ids of a tmpfs, which Linux 6.3 does: {0}")]
    Kernel(#[source] io::Error),
    #[error("ids of a mount cannot be mapped: {0}")]
    Apply(#[source] io::Error),
}

impl PodIds {
    /// Makes the map, and tries it on its own tmpfs. Takes some milliseconds.
    pub fn new(mode: IdmapMode) -> Self {
        Self(match mode {
            IdmapMode::Off => Err(NoIdMap::Off),
            IdmapMode::Auto => make(),
        })
    }

    /// The map.
    pub fn map(&self) -> Option<&IdMap> {
        self.0.as_ref().ok()
    }

    /// The reason that there is none.
    pub fn missing_because(&self) -> Option<&NoIdMap> {
        self.0.as_ref().err()
    }
}

fn make() -> Result<IdMap, NoIdMap> {
    let map = IdMap::of_one(SOCKET_USER).map_err(NoIdMap::UserNamespace)?;
    let trial = tmpfs().map_err(NoIdMap::Trial)?;
    map.apply(&trial).map_err(explained)?;
    Ok(map)
}

/// A tmpfs that is attached nowhere, and goes with its descriptor.
fn tmpfs() -> io::Result<OwnedFd> {
    let context = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let flags = FsMountFlags::FSMOUNT_CLOEXEC;
    Ok(fsmount(&context, flags, MountAttrFlags::empty())?)
}

fn explained(error: io::Error) -> NoIdMap {
    match Errno::from_io_error(&error) {
        Some(Errno::INVAL | Errno::NOSYS) => NoIdMap::Kernel(error),
        _ => NoIdMap::Apply(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_kernel_is_named_as_the_reason_and_others_are_quoted() {
        for errno in [Errno::INVAL, Errno::NOSYS] {
            let text = explained(errno.into()).to_string();
            assert!(text.contains("Linux 6.3"), "{text}");
        }
        let text = explained(Errno::PERM.into()).to_string();
        assert!(
            !text.contains("6.3") && text.contains("not permitted"),
            "{text}"
        );
        let off = PodIds::new(IdmapMode::Off);
        assert!(off.map().is_none());
        assert!(matches!(off.missing_because(), Some(NoIdMap::Off)));
    }
}
