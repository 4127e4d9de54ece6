//! Giving up rights: those of a pod's user, or of root in a container.

use anyhow::{Context as _, Result};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    set_no_new_privs,
};

/// Rights that an attacker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// Those of the process that started it.
    Kept,
    /// A user without capabilities or further groups, as Pod Security's "restricted" demands.
    User(u32),
    /// Root with the capabilities that container runtimes leave by default, in its own mount namespace.
    ContainerRoot,
}

/// Capabilities of a container's root by default (containerd, CRI-O and Docker).
fn of_containers() -> CapabilitySet {
    CapabilitySet::CHOWN
        | CapabilitySet::DAC_OVERRIDE
        | CapabilitySet::FSETID
        | CapabilitySet::FOWNER
        | CapabilitySet::MKNOD
        | CapabilitySet::NET_RAW
        | CapabilitySet::SETGID
        | CapabilitySet::SETUID
        | CapabilitySet::SETFCAP
        | CapabilitySet::SETPCAP
        | CapabilitySet::NET_BIND_SERVICE
        | CapabilitySet::SYS_CHROOT
        | CapabilitySet::KILL
        | CapabilitySet::AUDIT_WRITE
}

impl Rights {
    /// Takes these rights. To be called while the process has one thread.
    ///
    /// # Errors
    /// When the process may not.
    pub fn take(self) -> Result<()> {
        match self {
            Self::Kept => Ok(()),
            Self::User(user) => become_user(user),
            Self::ContainerRoot => become_container_root(),
        }
    }
}

fn become_user(user: u32) -> Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[]).context("leave all groups")?;
    setresgid(gid, gid, gid).context("take the group")?;
    setresuid(uid, uid, uid).context("take the user")?;
    set_no_new_privs(true).context("give up later privileges")
}

fn become_container_root() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNS | CloneFlags::CLONE_NEWIPC).context("unshare namespaces")?;
    let kept = of_containers();
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        // The kernel has fewer than 64.
        if !kept.contains(capability) {
            let _unknown = remove_capability_from_bounding_set(capability);
        }
    }
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).context("give up capabilities")?;
    setgroups(&[]).context("leave all groups")
}
