//! Common parts of tests that put a process under hostile clients in its shipped memory limit.
//!
//! | part | contents |
//! |---|---|
//! | [`address`] | addresses for servers of a test |
//! | [`cgroup`] | memory cgroups, of version 2 or 1 |
//! | [`clients`] | hostile clients of HTTP/1 and HTTP/2 |
//! | [`frames`] | frames of HTTP/2 as no client library writes them |
//! | [`memory`] | memory of a process |
//! | [`siege`] | hostile clients of all kinds at once |

pub mod address;
pub mod cgroup;
pub mod clients;
pub mod frames;
pub mod memory;
pub mod siege;
