//! What can go wrong with device memory.

use std::io;

use thiserror::Error;

/// An operation on device memory failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MemoryError {
    /// There is no driver, or none that can be used.
    #[error(
        "no usable CUDA driver: {reason}; weights stay in host memory until a driver is there (in a container: until the device is given to it)"
    )]
    NoDriver {
        /// What was found instead.
        reason: String,
    },
    /// The device does not exist.
    #[error(
        "expected a device number below {found}, found {asked}; list the devices with `nvidia-smi -L`"
    )]
    NoSuchDevice {
        /// The number that was asked for.
        asked: u32,
        /// How many devices there are.
        found: u32,
    },
    /// The driver refused a call.
    #[error("cannot {action}: the driver answered {name} ({code})")]
    Driver {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// `CUresult`.
        code: u32,
        /// Its name, as far as the driver knows one.
        name: String,
    },
    /// The device has not enough memory left.
    #[error(
        "device memory is full: expected room for {asked_bytes} bytes, found {free_bytes} free of {total_bytes}; release models or choose another device"
    )]
    OutOfMemory {
        /// Bytes asked for.
        asked_bytes: u64,
        /// Bytes free, as far as they are known.
        free_bytes: u64,
        /// Bytes there are.
        total_bytes: u64,
    },
    /// The device or the driver cannot do this.
    #[error("{what} is not supported here; {next}")]
    Unsupported {
        /// The operation.
        what: &'static str,
        /// What to do instead.
        next: &'static str,
    },
    /// A size that is no multiple of the granule, or zero.
    #[error(
        "expected a size that is a positive multiple of {granule_bytes} bytes, found {bytes}; round it up"
    )]
    Size {
        /// The size that was asked for.
        bytes: u64,
        /// The granule.
        granule_bytes: u64,
    },
    /// A place outside its mapping.
    #[error(
        "expected a place inside {limit_bytes} bytes, found {len_bytes} bytes at {offset_bytes}"
    )]
    Bounds {
        /// Where it begins.
        offset_bytes: u64,
        /// How long it is.
        len_bytes: u64,
        /// How long the mapping is.
        limit_bytes: u64,
    },
    /// A range that was reserved for a chunk of another size.
    #[error(
        "expected a range of {chunk_bytes} bytes, as long as the chunk, found one of {range_bytes}; reserve another"
    )]
    RangeSize {
        /// The chunk's length.
        chunk_bytes: u64,
        /// The range's length.
        range_bytes: u64,
    },
    /// What came in cannot be imported.
    #[error("cannot import device memory: {reason}; ask for it again")]
    Import {
        /// What is wrong with it.
        reason: String,
    },
    /// Writing through a mapping that is read-only.
    #[error(
        "cannot write through a read-only mapping; map the chunk read-write, in the process that created it"
    )]
    ReadOnly,
    /// A copy that was under way failed. What it should have written is undefined, as is what came after it on the stream.
    #[error("a copy to the device failed: {reason}; copy again on a new stream")]
    Copy {
        /// What is known of it.
        reason: String,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    Io {
        /// What was being done, as a verb phrase.
        action: &'static str,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl MemoryError {
    /// Wraps what the kernel said about `action`.
    pub(crate) fn io(action: &'static str, source: impl Into<io::Error>) -> Self {
        Self::Io {
            action,
            source: source.into(),
        }
    }
}
