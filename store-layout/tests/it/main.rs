//! The protocols of LAYOUT.md on real files.

mod protocol;
mod quarantine;
