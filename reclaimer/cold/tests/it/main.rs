//! The cold tier over real stores: a tmpfs and a disk.

mod faults;
mod keep;
mod node;
mod share;
