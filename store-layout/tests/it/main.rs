//! The protocols of LAYOUT.md on real files, and the seeds of a fuzz target.

mod compatibility;
mod examples;
mod held;
mod protocol;
mod quarantine;
