//! The install on a real cluster.
//!
//! Runs when `KUBECONFIG` names a cluster of one's own, on which Tetris is not installed. `TETRIS_IMAGE_NODE`, `TETRIS_IMAGE_AGENT`
//! and `TETRIS_IMAGE_SCALER` name the images where the nodes have them under other names than `tetris-node`, `tetris-agent` and
//! `tetris-scaler`. Afterwards everything is removed but the empty tmpfs on the nodes (deploy/README.md, "Uninstall").

mod account;
mod install;
mod program;
mod rights;
mod scaling;
mod sharing;
