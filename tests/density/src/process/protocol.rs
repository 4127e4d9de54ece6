//! Messages between parent and worker: one JSON object per line, over the worker's standard input
//! and output. Every request has exactly one reply; the worker ends at the end of its input.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::methods::{Loader, StoreUse};

/// Hidden first argument that makes the program a worker.
pub const WORKER: &str = "__worker";

/// A message from the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Write the worker's process id to this file, which moves the worker into a cgroup.
    Join {
        /// A `cgroup.procs` file.
        procs: PathBuf,
    },
    /// Load these files, touch every page, and make the first pass.
    Load {
        /// The loader.
        loader: Loader,
        /// Files of the instance, in order.
        files: Vec<PathBuf>,
        /// Directory of the tensor store, for the loader that needs one.
        store: Option<PathBuf>,
    },
    /// Make passes over the loaded model.
    Pass {
        /// Number of passes.
        count: u32,
    },
}

impl Request {
    /// The request as a verb, for error messages.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Join { .. } => "join the cgroup",
            Self::Load { .. } => "load",
            Self::Pass { .. } => "make a pass",
        }
    }
}

/// A message from the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The first line of every worker, before any request.
    Ready,
    /// The request was carried out.
    Done,
    /// The model is loaded.
    Loaded(LoadTimes),
    /// The passes are done.
    Passed {
        /// Duration of each pass in nanoseconds.
        pass_ns: Vec<u64>,
        /// Checksum of the last pass, in hexadecimal.
        checksum: String,
    },
    /// The request failed; the worker continues.
    Failed {
        /// The reason, with causes.
        reason: String,
    },
}

/// Times and results of a worker's load. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadTimes {
    /// Time until all tensors were addressable.
    pub attach_ns: u64,
    /// Time of one read per page over all tensors, after attaching.
    pub touch_ns: u64,
    /// Time from before attaching until the first pass was done.
    pub first_result_ns: u64,
    /// Checksum of the first pass, in hexadecimal.
    pub checksum: String,
    /// Number of tensors.
    pub tensors: u64,
    /// Length of all tensors, in bytes.
    pub tensor_bytes: u64,
    /// Use of the tensor store.
    pub store: StoreUse,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_survive_the_round_trip() {
        let request = Request::Load {
            loader: Loader::Heap,
            files: vec!["a b".into()],
            store: None,
        };
        let line = serde_json::to_string(&request).unwrap();
        assert!(!line.contains('\n'));
        assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        let reply = Reply::Loaded(LoadTimes {
            attach_ns: 7,
            ..LoadTimes::default()
        });
        let line = serde_json::to_string(&reply).unwrap();
        assert_eq!(serde_json::from_str::<Reply>(&line).unwrap(), reply);
    }
}
