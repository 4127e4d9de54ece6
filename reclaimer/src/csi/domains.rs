//! Trust domains of pods: the group ids by which mounts of a store tell pods apart (LAYOUT.md 4).
//!
//! A directory in the store, which only its owner can read, has a symbolic link for each domain: its name
//! is the number, its target the identity of the domain. So numbers live as long as the records in which
//! they count, and none is given twice.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, mkdirat, openat, readlinkat, statat, symlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use tetris_sandbox::idmap::IdMap;
use tetris_store_layout::{FIRST_POD_DOMAIN, LAST_POD_DOMAIN, SOCKET_USER, TRUST_DOMAINS};

use crate::mount::{StoreDirectory, with_rights_of};

/// Most domains of a store. Pods of further ones have none.
const MOST: usize = 4096;

/// Pods that take each other's word for derived tensors, field `csi.trust_domain`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PodTrust {
    /// Pods of one service account of a namespace.
    #[default]
    ServiceAccount,
    /// All pods of a namespace.
    Namespace,
    /// No pods: each derives its own tensors.
    Off,
}

impl PodTrust {
    /// Identity of a pod's domain; `None` if it has none.
    pub(super) fn identity(self, namespace_uid: &str, service_account: &str) -> Option<String> {
        match self {
            // Neither has a slash in it.
            Self::ServiceAccount => Some(format!("{namespace_uid}/{service_account}")),
            Self::Namespace => Some(format!("{namespace_uid}/")),
            Self::Off => None,
        }
    }
}

/// The map of a pod's mount of `store` that shows the group of the domain `identity`.
///
/// # Errors
/// When the number cannot be found or given, or no map can be made.
pub(super) fn map_of(store: &StoreDirectory, identity: &str) -> io::Result<IdMap> {
    let (number, group) = with_rights_of(store.user(), || number_of(store, identity))??;
    IdMap::of_one_with_group(SOCKET_USER, group, number)
}

/// The number of the domain `identity` in `store`, which is given if it has none.
///
/// # Errors
/// When the number cannot be found or given.
pub(super) fn domain_of(store: &StoreDirectory, identity: &str) -> io::Result<u32> {
    let (number, _) = with_rights_of(store.user(), || number_of(store, identity))??;
    Ok(number)
}

/// The number of the domain `identity` in `store`, and the group of the store's header.
fn number_of(store: &StoreDirectory, identity: &str) -> io::Result<(u32, u32)> {
    let group = statat(store, "store", AtFlags::SYMLINK_NOFOLLOW)?.st_gid;
    let folder = folder(store)?;
    let known = known(&folder)?;
    let given = known.iter().find(|(_, known)| *known == identity);
    if let Some((number, _)) = given {
        return Ok((*number, group));
    }
    let next = known.last_key_value().map(|(number, _)| number + 1);
    let next = next.unwrap_or(FIRST_POD_DOMAIN);
    if known.len() >= MOST || next > LAST_POD_DOMAIN {
        return Err(io::Error::other(format!(
            "the store has {MOST} trust domains already"
        )));
    }
    symlinkat(identity, &folder, next.to_string())?;
    Ok((next, group))
}

fn folder(store: &StoreDirectory) -> Result<OwnedFd, Errno> {
    match mkdirat(store, TRUST_DOMAINS, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(store, TRUST_DOMAINS, flags, Mode::empty())
}

/// The domains by number.
fn known(folder: &OwnedFd) -> io::Result<BTreeMap<u32, String>> {
    let mut known = BTreeMap::new();
    for entry in Dir::read_from(folder.as_fd())?.take(MOST + 3) {
        let entry = entry?;
        let number = entry
            .file_name()
            .to_str()
            .ok()
            .and_then(|name| name.parse().ok());
        let Some(number) =
            number.filter(|number| (FIRST_POD_DOMAIN..=LAST_POD_DOMAIN).contains(number))
        else {
            continue;
        };
        let target = readlinkat(folder, entry.file_name(), Vec::new())?;
        if let Ok(identity) = target.into_string() {
            known.insert(number, identity);
        }
    }
    Ok(known)
}
