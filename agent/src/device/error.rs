//! Why a model is not in device memory.

use std::io;
use std::path::PathBuf;

use tetris_gpu_mirror::client::ClientError;
use tetris_gpu_mirror::memory::MemoryError;
use thiserror::Error;

use super::Target;
use crate::error::LoadError;

/// Why a model is not in device memory. But for [`DeviceError::Load`], it can still be loaded into host memory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The model's files are missing or invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Without a store there is nothing that the mirror could copy.
    #[error("the GPU mirror copies from a tensor store, and there is none: {reason}")]
    NoStore {
        /// Why there is none.
        reason: String,
    },
    /// The store could not take all of the model.
    #[error(
        "the GPU mirror copies from the tensor store, which could not hold {bytes} bytes of the model: {reason}"
    )]
    Private {
        /// Bytes of tensors that are in private memory.
        bytes: u64,
        /// Why.
        reason: String,
    },
    /// The mirror has another kind of device.
    #[error("expected a mirror of {asked} at `{}`, found one of {found}; ask for that, or set up [gpu_mirror] of the daemon", socket.display())]
    OtherDevice {
        /// The mirror's socket.
        socket: PathBuf,
        /// What was asked for.
        asked: Target,
        /// What the mirror has.
        found: &'static str,
    },
    /// The mirror does not give the model.
    #[error(transparent)]
    Mirror(#[from] ClientError),
    /// The device cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The process was forked after it got the model.
    #[error(
        "the model was loaded before this process was forked, and is {state}; load it in the child, after a fork that happens before CUDA is used"
    )]
    Forked {
        /// What that means.
        state: &'static str,
    },
    /// The mirror ended, and with it what it had shared by legacy handles.
    #[error(
        "the GPU mirror ended, and with legacy IPC handles its memory with it; load the model again"
    )]
    Ended,
    /// The load was called off.
    #[error("the load was cancelled")]
    Cancelled,
    /// A thread could not be started.
    #[error("cannot watch over a model's arrival: {0}")]
    Thread(#[source] io::Error),
}
