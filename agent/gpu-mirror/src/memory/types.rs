//! What device memory is described with.

use std::fmt;
use std::os::fd::OwnedFd;

/// Length of a legacy CUDA IPC handle (`CU_IPC_HANDLE_SIZE`).
pub const HANDLE_BYTES: usize = 64;

/// The identity of a device, the same in every process of a machine and for every driver call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceUuid(pub [u8; 16]);

impl fmt::Display for DeviceUuid {
    /// As `nvidia-smi -L` prints it, without the prefix `GPU-`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, byte) in self.0.iter().enumerate() {
            if matches!(at, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for DeviceUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A device as its driver describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its identity.
    pub uuid: DeviceUuid,
    /// The product's name.
    pub name: String,
    /// All of its memory, in bytes.
    pub total_bytes: u64,
    /// What nobody has taken at the moment, in bytes; other programs take and give back at any time.
    pub free_bytes: u64,
}

/// What an implementation can do on this device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Chunks are multiples of this many bytes, a power of two. 2 MiB on every device known so far.
    pub granule_bytes: u64,
    /// Mappings can be [`Protection::ReadOnly`].
    pub read_only_mappings: bool,
    /// An importer cannot map for writing even if it wants to. With CUDA it can: the protection is what the
    /// importer's own library asked for, so it keeps a program from mistakes, not an attacker of the same tenant.
    pub read_only_enforced: bool,
    /// What was unmapped can be mapped again at the same address.
    pub stable_addresses: bool,
    /// Whether [`DeviceMemory::register`](super::DeviceMemory::register) takes memory that is mapped read-only.
    pub registers_read_only: bool,
}

impl Capabilities {
    /// What a client maps weights with: read-only where there is such a thing.
    pub fn client_protection(&self) -> Protection {
        if self.read_only_mappings {
            Protection::ReadOnly
        } else {
            Protection::ReadWrite
        }
    }
}

/// An implementation of device memory: what one exports, the same one can import.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// CUDA's virtual memory, handed out as descriptors.
    CudaDescriptors,
    /// CUDA memory that is handed out as legacy IPC handles.
    CudaHandles,
    /// The stand-in over memfds.
    Host,
}

impl MemoryKind {
    /// Its number in the protocol.
    pub const fn code(self) -> u8 {
        match self {
            Self::CudaDescriptors => 1,
            Self::CudaHandles => 2,
            Self::Host => 3,
        }
    }

    /// The implementation of this number.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::CudaDescriptors),
            2 => Some(Self::CudaHandles),
            3 => Some(Self::Host),
            _ => None,
        }
    }
}

/// What may be done through a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Kernels and copies may read.
    ReadOnly,
    /// They may also write.
    ReadWrite,
}

/// A chunk in the form in which it goes to another process.
#[derive(Debug)]
pub enum Exported {
    /// Goes over a UNIX socket as ancillary data. Whoever has it can import the whole chunk.
    Descriptor(OwnedFd),
    /// Opaque bytes, to be opened in another process than the exporting one.
    Handle([u8; HANDLE_BYTES]),
}

impl Exported {
    /// What it is, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Descriptor(_) => "a file descriptor",
            Self::Handle(_) => "a legacy IPC handle",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uuid_is_written_as_the_driver_writes_it() {
        let uuid = DeviceUuid([
            0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12,
        ]);
        assert_eq!(uuid.to_string(), "deadbeef-0102-0304-0506-0708090a0b0c");
    }
}
