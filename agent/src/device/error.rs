//! Errors of loads into device memory.

use std::io;
use std::path::PathBuf;

use tetris_gpu_client::ClientError;
use tetris_gpu_device::MemoryError;
use tetris_gpu_protocol::Reason;
use thiserror::Error;

use super::Target;
use tetris_loader::LoadError;

/// The reason a model is not in device memory. Except for [`DeviceError::Load`], it can still be
/// loaded into host memory.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The model's files are missing or invalid.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is no store, and the mirror copies only from one.
    #[error("the GPU mirror copies from a tensor store, and there is none: {reason}")]
    NoStore {
        /// The reason.
        reason: String,
    },
    /// The store could not hold the whole model.
    #[error(
        "the GPU mirror copies from the tensor store, which could not hold {bytes} bytes of the model: {reason}"
    )]
    Private {
        /// Number of bytes of tensors in private memory.
        bytes: u64,
        /// The reason.
        reason: String,
    },
    /// The mirror has another kind of device.
    #[error("expected a mirror of {asked} at `{}`, found one of {found}; ask for that, or set up [gpu_mirror] of the daemon", socket.display())]
    OtherDevice {
        /// The mirror's socket.
        socket: PathBuf,
        /// The requested device.
        asked: Target,
        /// The mirror's kind of device.
        found: &'static str,
    },
    /// The mirror has no device of this number.
    #[error(
        "expected a device of the mirror, found number {asked}; it has {found}: `tetris gpu-status` lists them"
    )]
    NoDevice {
        /// The number.
        asked: u32,
        /// Number of its devices.
        found: usize,
    },
    /// The mirror refused the model or could not load it.
    #[error(transparent)]
    Mirror(#[from] ClientError),
    /// The device cannot be used.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The process forked after the load.
    #[error(
        "the model was loaded before this process was forked, and is {state}; load it in the child, after a fork that happens before CUDA is used"
    )]
    Forked {
        /// State of the memory in the child.
        state: &'static str,
    },
    /// The mirror ended, and with it the memory that it had shared by legacy handles.
    #[error(
        "the GPU mirror ended, and with legacy IPC handles its memory with it; load the model again"
    )]
    Ended,
    /// The load was canceled.
    #[error("the load was canceled")]
    Cancelled,
    /// A thread could not be started.
    #[error("cannot watch over a model's arrival: {0}")]
    Thread(#[source] io::Error),
}

impl DeviceError {
    /// True if the mirror's store does not have all objects of the model.
    pub(super) fn is_for_missing_objects(&self) -> bool {
        matches!(self, Self::Mirror(ClientError::Refused(refused)) if refused.reason == Reason::MISSING)
    }
}
