//! Errors of device memory.

use std::io;

use thiserror::Error;

/// The reason an operation on device memory failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// No usable driver.
    #[error(
        "no usable CUDA driver: {reason}; weights stay in host memory until a driver is there (in a container: until the device is given to it)"
    )]
    NoDriver {
        /// The driver's state.
        reason: String,
    },
    /// The device does not exist.
    #[error(
        "expected a device number below {found}, found {asked}; list the devices with `nvidia-smi -L`"
    )]
    NoSuchDevice {
        /// The requested number.
        asked: u32,
        /// Number of devices.
        found: u32,
    },
    /// Another process has the device for itself, or no one may use it.
    #[error(
        "device {number} is unavailable: CUDA_ERROR_DEVICE_UNAVAILABLE (46); is it in compute mode EXCLUSIVE_PROCESS or PROHIBITED? `nvidia-smi --compute-mode=DEFAULT` lets several processes use it"
    )]
    Unavailable {
        /// The device's number in this process.
        number: u32,
    },
    /// The driver refused a call.
    #[error("cannot {action}: the driver answered {name} ({code})")]
    Driver {
        /// The failed action, as a verb phrase.
        action: &'static str,
        /// The value of `CUresult`.
        code: u32,
        /// The name of the code, if this library knows it.
        name: String,
    },
    /// The device has too little free memory.
    #[error(
        "device memory is full: expected room for {asked_bytes} bytes, found {free_bytes} free of {total_bytes}; release models or choose another device"
    )]
    OutOfMemory {
        /// Number of bytes requested.
        asked_bytes: u64,
        /// Number of free bytes; 0 if unknown.
        free_bytes: u64,
        /// Number of bytes of the device; 0 if unknown.
        total_bytes: u64,
    },
    /// The device or the driver cannot do this.
    #[error("{what} is not supported here; {next}")]
    Unsupported {
        /// The operation.
        what: &'static str,
        /// The next step.
        next: &'static str,
    },
    /// A size is zero or no multiple of the granule.
    #[error(
        "expected a size that is a positive multiple of {granule_bytes} bytes, found {bytes}; round it up"
    )]
    Size {
        /// The requested size, in bytes.
        bytes: u64,
        /// The granule, in bytes.
        granule_bytes: u64,
    },
    /// An access outside its mapping.
    #[error(
        "expected a place inside {limit_bytes} bytes, found {len_bytes} bytes at {offset_bytes}"
    )]
    Bounds {
        /// Offset of the access, in bytes.
        offset_bytes: u64,
        /// Length of the access, in bytes.
        len_bytes: u64,
        /// Length of the mapping, in bytes.
        limit_bytes: u64,
    },
    /// A range differs from its chunk in length.
    #[error(
        "expected a range of {chunk_bytes} bytes, as long as the chunk, found one of {range_bytes}; reserve another"
    )]
    RangeSize {
        /// Length of the chunk, in bytes.
        chunk_bytes: u64,
        /// Length of the range, in bytes.
        range_bytes: u64,
    },
    /// An exported chunk cannot be imported.
    #[error("cannot import device memory: {reason}; ask for it again")]
    Import {
        /// The reason.
        reason: String,
    },
    /// A write through a read-only mapping.
    #[error(
        "cannot write through a read-only mapping; map the chunk read-write, in the process that created it"
    )]
    ReadOnly,
    /// A queued copy failed. Its destination is undefined, and so is that of later copies on the
    /// stream.
    #[error("a copy to the device failed: {reason}; copy again on a new stream")]
    Copy {
        /// The reason, as far as it is known.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// The failed action, as a verb phrase.
        action: &'static str,
        /// The system's error.
        #[source]
        source: io::Error,
    },
}

/// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` to `CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD`, the errors
/// of calls that a capture of a CUDA graph forbids.
const CAPTURE: std::ops::RangeInclusive<u32> = 900..=908;

impl MemoryError {
    /// The error of a wait while this process captures a graph.
    pub fn captures(action: &'static str) -> Self {
        Self::Driver {
            action,
            code: *CAPTURE.start(),
            name: "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED".to_owned(),
        }
    }

    /// Returns true if the driver refused the call because this process captures a graph. The call
    /// is allowed again when the capture has ended.
    pub fn is_capture(&self) -> bool {
        matches!(self, Self::Driver { code, .. } if CAPTURE.contains(code))
    }

    /// Returns true if the error states that no kernel of this process runs on the device any more:
    /// the driver has shut down, or it has given up the process's context.
    pub fn ends_all_work(&self) -> bool {
        // Deinitialized, ECC uncorrectable, context is destroyed, illegal address, hardware stack
        // error, illegal instruction, misaligned address, invalid address space, invalid PC, launch
        // failed.
        const ENDS: [u32; 10] = [4, 214, 700, 709, 714, 715, 716, 717, 718, 719];
        matches!(self, Self::Driver { code, .. } if ENDS.contains(code))
    }

    /// Wraps a system error of `action`.
    pub fn io(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            source: source.into(),
        }
    }
}
