//! The Python package for pods whose images do not have it: volumes with `content: python`.
//!
//! # Flow
//! The package lies in the daemon's image. The first such volume copies it to a small tmpfs of its
//! own, which becomes read-only and is then mounted below `csi.python.path`, named after version
//! and contents. Each volume is a mount of it.
//!
//! # Guarantees
//! - Pods have the files that they started with: an image that is replaced takes nothing from them.
//!   A later daemon unmounts the earlier tmpfs from its place, and the kernel frees it with the last
//!   pod's volume.
//! - No process can write to it: the file system itself is read-only before it is seen.
//! - Equal contents are one tmpfs, also after a restart of the daemon.
//! - A daemon without the package gives empty volumes, so no pod waits for it.
//!
//! # Caveats
//! Its mounts permit execution, which mapping an extension module needs.

mod config;
mod contents;
mod mounted;

pub use config::PythonConfig;
pub(super) use mounted::{PackageMount, is_package_mount};
