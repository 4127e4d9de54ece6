//! The install on a real cluster.
//!
//! Runs when `KUBECONFIG` names a cluster of one's own, on which Tetris is not installed. `TETRIS_IMAGE_NODE`, `TETRIS_IMAGE_AGENT`
//! `TETRIS_IMAGE_SCALER` and `TETRIS_IMAGE_GATEWAY` name the images where the nodes have them under other names than `tetris-node`, `tetris-agent`,
//! `tetris-scaler` and `tetris-gateway`. `TETRIS_IMAGE_PYTHON` names an image with Python, safetensors, and PyTorch or NumPy, and nothing of Tetris; `TETRIS_IMAGE_WEBHOOK`
//! that of the webhook, and `TETRIS_IMAGE_INSTANCE` that of the instance server. `TETRIS_NODE_EXEC` is a program that runs its arguments as root on the node, among its processes and mounts,
//! `TETRIS_IMAGE_NODE_EARLIER` an image of the daemon from before it had processes, and `TETRIS_KUBELET_RESTART` a command that
//! restarts the kubelet: the tests that need them are else left out. Afterwards everything is removed but the empty tmpfs on the nodes (deploy/README.md, "Uninstall").

mod account;
mod cold;
mod deploy;
mod drain;
mod gateway;
mod helm;
mod holders;
mod inject;
mod install;
mod kserve;
mod kubelet;
mod model_pods;
mod models;
mod monitoring;
mod node;
mod overlays;
mod placement;
mod processes;
mod program;
mod pull;
mod rights;
mod rollout;
mod scaling;
mod sharing;
mod upgrade;
