//! The protocols of LAYOUT.md 5.1, 5.2, 5.3 and 5.5 as a model that is checked exhaustively.
//!
//! Processes interleave at every system call over an abstract file system ([`files`]): names, inodes
//! with link counts and contents, open file descriptions with locks, mappings that keep descriptions.
//! Each may be killed between any two calls. What must hold in every state is in [`invariants`].
//! A protocol is a list of steps ([`step`]), so that one can be left out or moved, and the rest of what
//! could be done otherwise is in [`variant`]; for each the checker has to find what it breaks.
//!
//! Left out, because nothing else in the model depends on it: records (LAYOUT.md 5.4), the creation lock of
//! loads, which decides only who works, and children that share a mapping's description after `fork`.

pub mod files;
pub mod invariants;
pub mod model;
pub mod operation;
pub mod process;
pub mod solo;
pub mod step;
pub mod variant;
