//! What parent and worker say to each other: one JSON object per line, over the worker's standard
//! input and output. Every request has exactly one reply; the worker ends at the end of its input.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::methods::{Loader, StoreUse};

/// Hidden first argument that makes the program a worker.
pub const WORKER: &str = "__worker";

/// From the parent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// Write your process id to this file, which places you in a cgroup.
    Join {
        /// A `cgroup.procs` file.
        procs: PathBuf,
    },
    /// Load these files, touch every page, and make the first pass.
    Load {
        /// By which loader.
        loader: Loader,
        /// Files of the instance, in order.
        files: Vec<PathBuf>,
        /// Directory of the tensor store, for the loader that needs one.
        store: Option<PathBuf>,
    },
    /// Make passes over the loaded model.
    Pass {
        /// How many.
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

/// From the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum Reply {
    /// The first line of every worker, before any request.
    Ready,
    /// Done as asked, nothing to tell.
    Done,
    /// The model is loaded.
    Loaded(LoadTimes),
    /// The passes are made.
    Passed {
        /// Duration of each pass in nanoseconds.
        pass_ns: Vec<u64>,
        /// Checksum of the last pass, in hexadecimal.
        checksum: String,
    },
    /// The request failed; the worker lives on.
    Failed {
        /// Why, with causes.
        reason: String,
    },
}

/// What a worker measured of its own start. Times are in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadTimes {
    /// Until all tensors were addressable.
    pub attach_ns: u64,
    /// One read per page over all tensors, after attaching.
    pub touch_ns: u64,
    /// From before attaching until the first pass was done.
    pub first_result_ns: u64,
    /// Checksum of the first pass, in hexadecimal.
    pub checksum: String,
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes of all tensors.
    pub tensor_bytes: u64,
    /// How the tensor store served it.
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
