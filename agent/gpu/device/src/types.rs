//! Types that describe device memory.

use std::fmt;
use std::os::fd::OwnedFd;

/// Length of a legacy CUDA IPC handle in bytes (`CU_IPC_HANDLE_SIZE`).
pub const HANDLE_BYTES: usize = 64;

/// Identity of a device, the same in every process of a machine and in every driver call.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceUuid(pub [u8; 16]);

impl fmt::Display for DeviceUuid {
    /// Formats the UUID as `nvidia-smi -L` does, without the prefix `GPU-`.
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

/// The driver's description of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its identity.
    pub uuid: DeviceUuid,
    /// The product's name.
    pub name: String,
    /// Length of its memory, in bytes.
    pub total_bytes: u64,
    /// Length of its free memory at the moment, in bytes. Other programs allocate and free at any
    /// time.
    pub free_bytes: u64,
    /// Mode in which processes may use it at the moment.
    pub mode: DeviceMode,
    /// Its PCI address, e.g. `0000:3b:00.0`; `None` for a simulated device.
    pub pci_address: Option<String>,
}

/// Processes that may use a device at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case"))]
pub enum DeviceMode {
    /// Any number.
    #[default]
    Shared,
    /// One process: `EXCLUSIVE_PROCESS`.
    Exclusive,
    /// Any number, over one context of the driver's service MPS.
    Mps,
}

impl DeviceMode {
    /// Its name in logs and status.
    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Exclusive => "exclusive",
            Self::Mps => "mps",
        }
    }

    /// Consequence of the mode for a mirror, with the next step; `None` if all is well.
    pub fn trouble(self) -> Option<&'static str> {
        match self {
            Self::Shared => None,
            Self::Exclusive => Some(
                "the device is in compute mode EXCLUSIVE_PROCESS: the GPU mirror has it, and no client can open it; set the mode by `nvidia-smi --compute-mode=DEFAULT`",
            ),
            Self::Mps => Some(
                "the GPU mirror is a client of MPS: the fault of one client ends its context, and with it every model on the device; set CUDA_MPS_PIPE_DIRECTORY for the daemon to a folder that does not exist",
            ),
        }
    }
}

/// Capabilities of an implementation on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// Unit of chunk lengths, a power of two, in bytes. 2 MiB on every device known so far.
    pub granule_bytes: u64,
    /// True if mappings can be [`Protection::ReadOnly`].
    pub read_only_mappings: bool,
    /// True if an importer cannot map for writing even if it wants to. With CUDA it can: the
    /// importer's own library requests the protection, which prevents mistakes but not attacks
    /// within the same tenant.
    pub read_only_enforced: bool,
    /// True if unmapped memory can be mapped again at the same address.
    pub stable_addresses: bool,
    /// True if [`DeviceMemory::register`](super::DeviceMemory::register) accepts memory that is
    /// mapped read-only.
    pub registers_read_only: bool,
}

impl Capabilities {
    /// Protection of a client's mappings: read-only where the device supports it.
    pub fn client_protection(&self) -> Protection {
        if self.read_only_mappings {
            Protection::ReadOnly
        } else {
            Protection::ReadWrite
        }
    }
}

/// An implementation of device memory. Each one imports only its own exports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryKind {
    /// CUDA's virtual memory, exported as descriptors.
    CudaDescriptors,
    /// CUDA memory exported as legacy IPC handles.
    CudaHandles,
    /// The simulated device over memfds.
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

    /// Returns the implementation of this number.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::CudaDescriptors),
            2 => Some(Self::CudaHandles),
            3 => Some(Self::Host),
            _ => None,
        }
    }
}

/// Access that a mapping allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Kernels and copies may read.
    ReadOnly,
    /// Kernels and copies may read and write.
    ReadWrite,
}

/// A chunk in the form in which it is sent to another process.
#[derive(Debug)]
pub enum Exported {
    /// Sent over a UNIX socket as ancillary data. Its holder can import the whole chunk.
    Descriptor(OwnedFd),
    /// Opaque bytes that any process but the exporting one can open.
    Handle([u8; HANDLE_BYTES]),
}

impl Exported {
    /// The form, for error messages.
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
