//! The daemon's socket: clients and servers of every kind.

mod binding;
mod common;
mod full_store;
mod hostile;
mod mount;
mod requests;
mod silent_daemon;
