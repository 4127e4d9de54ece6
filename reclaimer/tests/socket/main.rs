//! The daemon's socket: clients and servers of every kind.

mod binding;
mod common;
mod full_store;
mod hostile;
mod mount;
mod requests;
#[path = "../shared/settled.rs"]
mod settled;
mod silent_daemon;
#[path = "../shared/skipped.rs"]
mod skipped;
