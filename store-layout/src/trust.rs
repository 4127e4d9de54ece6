//! Trust domains: processes that take each other's word for derived tensors (LAYOUT.md 3.4).

use std::fmt;
use std::os::fd::AsFd;

use nix::sys::stat::fstat;

use crate::error::IoError;
use crate::interrupted::retried;
use crate::store::{HEADER, Store};

/// First of the group ids by which mounts tell domains of pods apart. systemd's table of ids leaves
/// those up to [`LAST_POD_DOMAIN`] unused (UIDS-GIDS).
pub const FIRST_POD_DOMAIN: u32 = 0x7000_0000;
/// Last of these group ids.
pub const LAST_POD_DOMAIN: u32 = 0x7ffd_ffff;

/// Group of processes that take each other's word for derived tensors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrustDomain {
    /// Processes that may write the store. Every process takes their word.
    #[default]
    Owner,
    /// Processes of one user, by user id.
    User(u32),
    /// Pods whose mounts of the store show this group id.
    Pods(u32),
}

impl TrustDomain {
    /// Kind and number, as records have them.
    pub fn code(self) -> (u32, u32) {
        match self {
            Self::Owner => (0, 0),
            Self::User(uid) => (1, uid),
            Self::Pods(number) => (2, number),
        }
    }

    /// The domain of a kind and number; `None` if there is no such domain.
    pub fn from_code(kind: u32, number: u32) -> Option<Self> {
        match (kind, number) {
            (0, 0) => Some(Self::Owner),
            (1, uid) => Some(Self::User(uid)),
            (2, FIRST_POD_DOMAIN..=LAST_POD_DOMAIN) => Some(Self::Pods(number)),
            _ => None,
        }
    }
}

impl fmt::Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner of the store"),
            Self::User(uid) => write!(f, "user {uid}"),
            Self::Pods(number) => write!(f, "pods {}", number - FIRST_POD_DOMAIN),
        }
    }
}

impl Store {
    /// The open header, through the mount by which this process reached the store. A daemon that is
    /// given it knows that mount's domain.
    pub fn header_descriptor(&self) -> impl AsFd + '_ {
        self.header_file()
    }

    /// The domain of the mount through which `file` was opened; `None` if `file` is not this store's
    /// header, or the mount has no domain.
    ///
    /// # Errors
    /// When the header cannot be asked for.
    pub fn domain_of_mount(&self, file: impl AsFd) -> Result<Option<TrustDomain>, IoError> {
        let path = || self.root().join(HEADER);
        let failed = |error| IoError::new("stat", path(), error);
        let own_mount = retried(|| fstat(self.header_file())).map_err(failed)?;
        let shown = retried(|| fstat(file.as_fd())).map_err(failed)?;
        let is_header = (own_mount.st_dev, own_mount.st_ino) == (shown.st_dev, shown.st_ino);
        let domain = TrustDomain::from_code(2, shown.st_gid);
        Ok(domain.filter(|_| is_header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_one_code() {
        let domains = [
            TrustDomain::Owner,
            TrustDomain::User(0),
            TrustDomain::User(u32::MAX),
            TrustDomain::Pods(FIRST_POD_DOMAIN),
            TrustDomain::Pods(LAST_POD_DOMAIN),
        ];
        for domain in domains {
            let (kind, number) = domain.code();
            assert_eq!(TrustDomain::from_code(kind, number), Some(domain));
        }
        for (kind, number) in [(0, 1), (2, 0), (2, 65_534), (2, u32::MAX), (3, 0)] {
            assert_eq!(
                TrustDomain::from_code(kind, number),
                None,
                "{kind} {number}"
            );
        }
    }

    #[test]
    fn a_plain_mount_and_another_file_have_no_domain() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let store = Store::create(dir.path(), &crate::CreateOptions::default()).unwrap();
        let header = store.header_descriptor();
        assert_eq!(store.domain_of_mount(&header).unwrap(), None);
        let other = tempfile::tempfile().unwrap();
        assert_eq!(store.domain_of_mount(&other).unwrap(), None);
    }
}
