//! The protocols of LAYOUT.md 5.1, 5.2, 5.3 and 5.5 as an exhaustively checked model.
//!
//! Processes interleave at every system call over an abstract file system ([`files`]): names,
//! inodes with link counts and contents, open file descriptions with locks, mappings that keep
//! descriptions. Each process may be killed between any two calls. [`invariants`] lists the
//! conditions that hold in every state. A protocol is a list of steps ([`step`]), so that tests can
//! omit or move one. [`variant`] lists other deviations. For each of them the checker must find the
//! invariant that it breaks.
//!
//! The model omits parts on which nothing else depends: records (LAYOUT.md 5.4), the creation lock
//! of loads, which only decides which process works, and children that share a mapping's
//! description after `fork`.

pub mod exploration;
pub mod files;
pub mod invariants;
pub mod model;
pub mod operation;
pub mod process;
pub mod solo;
pub mod step;
pub mod variant;
