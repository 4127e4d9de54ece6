//! Hostile pods as programs: each attack that a review of the daemon and the gateway found is a subcommand of `tetris-attack`.
//!
//! An attacker is a process with the rights of a container: a user without capabilities, or root with those that a
//! container runtime leaves by default. It has what a pod has: its store's read-only volume with the daemon's socket,
//! its own directory, and the network. It repeats its attack until its standard input ends, and prints a line of
//! JSON after each round. A finding that must never happen, such as wrong bytes, is a line of kind `wrong`.
//!
//! | part | contents |
//! |---|---|
//! | [`attack`] | the attacks on the daemon |
//! | [`gateway`] | the attacks on a gateway |
//! | [`victim`] | a pod that loads a fresh model at an interval and checks every byte |
//! | [`rights`] | giving up rights |
//! | [`client`] | a client of the daemon's socket that sends any bytes and descriptors |
//! | [`model`] | model files whose bytes follow from a number |
//! | [`line`](mod@line) | lines to the process that started this one |

pub mod attack;
pub mod cli;
pub mod client;
pub mod gateway;
pub mod line;
pub mod model;
pub mod rights;
pub mod victim;
