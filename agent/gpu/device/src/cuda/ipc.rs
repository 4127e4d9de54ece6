//! Devices without virtual memory or descriptors: whole allocations, shared by legacy IPC handles.
//!
//! Importers can write: these mappings have no protection. Only other processes can open a handle,
//! in practice only processes in the exporter's PID namespace. The driver may place several small
//! allocations in one block, and a handle gives access to the whole block. So chunks are multiples
//! of 2 MiB, each its own block.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::ffi::c_char;
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::CudaContext;
use super::result::{check, note};
use super::shared::shared_items;
use crate::{
    Capabilities, DeviceMemory, Exported, HANDLE_BYTES, Mapped, MemoryError, MemoryKind,
    Protection, check_chunk_size,
};

const GRANULE_BYTES: u64 = 2 << 20;
/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, the only flag of the call.
const LAZY_PEER_ACCESS: u32 = 1;

/// A device. Clones refer to the same device.
#[derive(Debug, Clone)]
pub struct IpcDevice {
    context: Arc<CudaContext>,
    registers_read_only: bool,
}

/// A length: the driver chooses the address when it allocates or opens memory.
#[derive(Debug)]
pub struct IpcRange {
    bytes: u64,
}

/// Device memory, which has an address from the start.
#[derive(Debug)]
pub struct IpcChunk(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: Arc<CudaContext>,
    address: u64,
    bytes: u64,
    imported: bool,
}

/// The same memory as a mapping.
#[derive(Debug)]
pub struct IpcMapping {
    chunk: Arc<Inner>,
}

impl IpcDevice {
    /// Opens the device with this number.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if there is no usable driver, no such device, or no support for legacy IPC
    /// handles.
    pub fn open(number: u32) -> Result<Self, MemoryError> {
        use sys::CUdevice_attribute as Attribute;
        let context = CudaContext::open(number)?;
        if !context.can(Attribute::CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING)? {
            return Err(MemoryError::Unsupported {
                what: "sharing device memory by legacy IPC handles",
                next: "load into host memory",
            });
        }
        let read_only = Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
        let registers_read_only = context.can(read_only)?;
        Ok(Self {
            context,
            registers_read_only,
        })
    }

    /// The context of the device's kernels.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    /// Checks an opened chunk against the length that the exporter announced.
    fn check_length(&self, chunk: &IpcChunk) -> Result<(), MemoryError> {
        let current = self.context.enter()?;
        let (mut start, mut found) = (0, 0usize);
        let address = chunk.0.address;
        // SAFETY: both may be written; the address is that of an open allocation.
        let code =
            unsafe { (current.driver.address_range)(&raw mut start, &raw mut found, address) };
        check(code, "ask for the length of device memory")?;
        let (bytes, skipped) = (chunk.0.bytes, address.saturating_sub(start));
        if skipped.saturating_add(bytes) <= found as u64 {
            return Ok(());
        }
        Err(MemoryError::Import {
            reason: format!("expected {bytes} bytes, found {found}"),
        })
    }

    fn own(&self, address: u64, bytes: u64, imported: bool) -> IpcChunk {
        IpcChunk(Arc::new(Inner {
            context: Arc::clone(&self.context),
            address,
            bytes,
            imported,
        }))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Ok(current) = self.context.enter() else {
            return;
        };
        if self.imported {
            // SAFETY: opened once by `import`, closed once, here; mappings and streams keep this
            // value.
            note(
                unsafe { (current.driver.ipc_close)(self.address) },
                "close device memory",
            );
        } else {
            // SAFETY: allocated once by `create`, freed once, here; mappings and streams keep this
            // value.
            note(
                unsafe { (current.driver.free)(self.address) },
                "free device memory",
            );
        }
    }
}

impl Mapped for IpcMapping {
    fn address(&self) -> u64 {
        self.chunk.address
    }

    fn bytes(&self) -> u64 {
        self.chunk.bytes
    }

    fn protection(&self) -> Protection {
        Protection::ReadWrite
    }
}

impl DeviceMemory for IpcDevice {
    const KIND: MemoryKind = MemoryKind::CudaHandles;

    type Range = IpcRange;
    type Chunk = IpcChunk;
    type Mapping = IpcMapping;

    shared_items!();

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            granule_bytes: GRANULE_BYTES,
            read_only_mappings: false,
            read_only_enforced: false,
            stable_addresses: true,
            registers_read_only: self.registers_read_only,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<IpcRange, MemoryError> {
        check_chunk_size(bytes, GRANULE_BYTES)?;
        Ok(IpcRange { bytes })
    }

    fn create(&self, bytes: u64) -> Result<IpcChunk, MemoryError> {
        check_chunk_size(bytes, GRANULE_BYTES)?;
        let current = self.context.enter()?;
        let mut address = 0;
        // SAFETY: `address` may be written, and a context is current. Freed on drop.
        let code = unsafe { (current.driver.alloc)(&raw mut address, bytes as usize) };
        self.context
            .check_taken(code, "create device memory", bytes)?;
        Ok(self.own(address, bytes, false))
    }

    fn export(&self, chunk: &IpcChunk) -> Result<Exported, MemoryError> {
        let current = self.context.enter()?;
        let mut handle = sys::CUipcMemHandle {
            reserved: [0; HANDLE_BYTES],
        };
        // SAFETY: `handle` may be written; the address is that of an allocation that lives.
        let code = unsafe { (current.driver.ipc_get)(&raw mut handle, chunk.0.address) };
        check(code, "export device memory")?;
        Ok(Exported::Handle(handle.reserved.map(|byte| byte as u8)))
    }

    fn import(&self, exported: Exported, bytes: u64) -> Result<IpcChunk, MemoryError> {
        check_chunk_size(bytes, GRANULE_BYTES)?;
        let Exported::Handle(handle) = exported else {
            let reason = format!("expected a legacy IPC handle, found {}", exported.kind());
            return Err(MemoryError::Import { reason });
        };
        let handle = sys::CUipcMemHandle {
            reserved: handle.map(|byte| c_char::from_le_bytes([byte])),
        };
        let current = self.context.enter()?;
        let mut address = 0;
        // SAFETY: `address` may be written, and a context is current. The driver checks the handle.
        // Closed on drop.
        let code = unsafe { (current.driver.ipc_open)(&raw mut address, handle, LAZY_PEER_ACCESS) };
        check(code, "open a legacy IPC handle").map_err(|error| MemoryError::Import {
            reason: error.to_string(),
        })?;
        drop(current);
        let chunk = self.own(address, bytes, true);
        self.check_length(&chunk)?;
        Ok(chunk)
    }

    fn map(
        &self,
        range: IpcRange,
        chunk: &IpcChunk,
        protection: Protection,
    ) -> Result<IpcMapping, MemoryError> {
        if range.bytes != chunk.0.bytes {
            return Err(MemoryError::RangeSize {
                chunk_bytes: chunk.0.bytes,
                range_bytes: range.bytes,
            });
        }
        if protection == Protection::ReadOnly {
            return Err(MemoryError::Unsupported {
                what: "a read-only mapping of a legacy allocation",
                next: "map it read-write, or use a device with virtual memory",
            });
        }
        Ok(IpcMapping {
            chunk: Arc::clone(&chunk.0),
        })
    }

    fn unmap(&self, mapping: IpcMapping) -> Result<IpcRange, MemoryError> {
        let bytes = mapping.chunk.bytes;
        drop(mapping);
        Ok(IpcRange { bytes })
    }
}
