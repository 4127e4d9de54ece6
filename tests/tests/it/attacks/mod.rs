//! Attacks of processes that can only read a store, or that only reach the node's sockets.

mod leases;
mod locks;
