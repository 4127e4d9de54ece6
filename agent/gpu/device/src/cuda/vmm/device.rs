//! The device with virtual memory.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::{Arc, Mutex};

use cudarc::driver::sys;
use rustix::io::{FdFlags, fcntl_setfd};

use super::parts::{DESCRIPTOR, Inner, VmmChunk, VmmMapping, VmmRange, granule, properties, unmap};
use crate::bounds::check_across;
use crate::cuda::context::CudaContext;
use crate::cuda::copies::CudaStream;
use crate::cuda::result::check;
use crate::cuda::shared::shared_items;
use crate::device::NO_LINK;
use crate::{
    Capabilities, DeviceMemory, Exported, MemoryError, MemoryKind, Protection, check_chunk_size,
    check_copy,
};

/// A device. Clones refer to the same device.
#[derive(Debug, Clone)]
pub struct VmmDevice {
    context: Arc<CudaContext>,
    granule_bytes: u64,
    registers_read_only: bool,
}

impl VmmDevice {
    /// Opens the device with this number.
    ///
    /// # Errors
    ///
    /// [`MemoryError`] if there is no usable driver or no such device, or if the device cannot
    /// share memory by descriptors.
    pub fn open(number: u32) -> Result<Self, MemoryError> {
        use sys::CUdevice_attribute as Attribute;
        let context = CudaContext::open(number)?;
        for needed in [
            Attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED,
            Attribute::CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
        ] {
            if !context.can(needed)? {
                return Err(MemoryError::Unsupported {
                    what: "sharing device memory by descriptors",
                    next: "share it by legacy IPC handles",
                });
            }
        }
        let read_only = Attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED;
        let registers_read_only = context.can(read_only)?;
        let granule_bytes = granule(&context)?;
        Ok(Self {
            context,
            granule_bytes,
            registers_read_only,
        })
    }

    /// Writes to a mapping and waits, ignoring its protection like a faulty program. Tests whether
    /// the driver stops the write; if it does, the device becomes unusable for this process.
    pub fn overwrite(&self, mapping: &VmmMapping, byte: u8) -> Result<(), MemoryError> {
        CudaStream::new(&self.context)?.fill(mapping, byte)
    }

    /// The context of the device's kernels.
    pub fn context(&self) -> &Arc<CudaContext> {
        &self.context
    }

    fn own(&self, handle: sys::CUmemGenericAllocationHandle, bytes: u64) -> VmmChunk {
        VmmChunk(Arc::new(Inner {
            context: Arc::clone(&self.context),
            handle,
            bytes,
        }))
    }
}

impl DeviceMemory for VmmDevice {
    const KIND: MemoryKind = MemoryKind::CudaDescriptors;

    type Range = VmmRange;
    type Chunk = VmmChunk;
    type Mapping = VmmMapping;

    shared_items!();

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            granule_bytes: self.granule_bytes,
            read_only_mappings: true,
            read_only_enforced: false,
            stable_addresses: true,
            registers_read_only: self.registers_read_only,
        }
    }

    fn reserve(&self, bytes: u64) -> Result<VmmRange, MemoryError> {
        check_chunk_size(bytes, self.granule_bytes)?;
        let current = self.context.enter()?;
        let mut address = 0;
        let (len, granule) = (bytes as usize, self.granule_bytes as usize);
        // Mappings can require a larger alignment than the default.
        // SAFETY: `address` may be written. Freed on drop.
        let code =
            unsafe { (current.driver.address_reserve)(&raw mut address, len, granule, 0, 0) };
        check(code, "reserve device addresses")?;
        Ok(VmmRange {
            context: Arc::clone(&self.context),
            address,
            bytes,
        })
    }

    fn address_of(range: &VmmRange) -> Option<u64> {
        Some(range.address)
    }

    fn create(&self, bytes: u64) -> Result<VmmChunk, MemoryError> {
        check_chunk_size(bytes, self.granule_bytes)?;
        let current = self.context.enter()?;
        let properties = properties(&self.context);
        let mut handle = 0;
        // SAFETY: `handle` may be written, the properties are complete. Released on drop.
        let code = unsafe {
            (current.driver.create)(&raw mut handle, bytes as usize, &raw const properties, 0)
        };
        self.context
            .check_taken(code, "create device memory", bytes)?;
        Ok(self.own(handle, bytes))
    }

    fn export(&self, chunk: &VmmChunk) -> Result<Exported, MemoryError> {
        let current = self.context.enter()?;
        let mut number: RawFd = -1;
        let into = (&raw mut number).cast();
        // SAFETY: with this kind of handle the driver writes one `int`; the chunk lives.
        let code = unsafe { (current.driver.export)(into, chunk.0.handle, DESCRIPTOR, 0) };
        check(code, "export device memory")?;
        // SAFETY: the driver has created the descriptor for this call, and no other code closes it.
        let file = unsafe { OwnedFd::from_raw_fd(number) };
        fcntl_setfd(&file, FdFlags::CLOEXEC)
            .map_err(|source| MemoryError::io("keep a descriptor from child processes", source))?;
        Ok(Exported::Descriptor(file))
    }

    fn import(&self, exported: Exported, bytes: u64) -> Result<VmmChunk, MemoryError> {
        check_chunk_size(bytes, self.granule_bytes)?;
        let Exported::Descriptor(file) = exported else {
            let reason = format!("expected a file descriptor, found {}", exported.kind());
            return Err(MemoryError::Import { reason });
        };
        let current = self.context.enter()?;
        let number = ptr::without_provenance_mut(file.as_raw_fd() as usize);
        let mut handle = 0;
        // SAFETY: with this kind of handle the driver takes the pointer's value as a descriptor,
        // which is open, and checks its type. `handle` may be written. Released on drop.
        let code = unsafe { (current.driver.import)(&raw mut handle, number, DESCRIPTOR) };
        check(code, "import a descriptor").map_err(|error| MemoryError::Import {
            reason: error.to_string(),
        })?;
        Ok(self.own(handle, bytes))
    }

    fn map(
        &self,
        range: VmmRange,
        chunk: &VmmChunk,
        protection: Protection,
    ) -> Result<VmmMapping, MemoryError> {
        if range.bytes != chunk.0.bytes {
            return Err(MemoryError::RangeSize {
                chunk_bytes: chunk.0.bytes,
                range_bytes: range.bytes,
            });
        }
        let (address, bytes) = (range.address, range.bytes);
        let current = self.context.enter()?;
        // SAFETY: the range is reserved, as long as the chunk, and nothing is mapped there; the
        // driver checks the length of an imported chunk.
        let code = unsafe { (current.driver.map)(address, bytes as usize, 0, chunk.0.handle, 0) };
        // Page tables use device memory too.
        self.context.check_taken(code, "map device memory", bytes)?;
        // From here on dropping the mapping unmaps it.
        let mut mapping = VmmMapping {
            range: Some(range),
            address,
            bytes,
            protection,
            held: true,
            readers: Mutex::default(),
            _chunk: Arc::clone(&chunk.0),
        };
        mapping.protect(&self.context)?;
        Ok(mapping)
    }

    fn unmap(&self, mut mapping: VmmMapping) -> Result<VmmRange, MemoryError> {
        let Some(range) = mapping.range.take() else {
            return Err(MemoryError::Unsupported {
                what: "unmapping twice",
                next: "drop the mapping",
            });
        };
        if let Err(error) = unmap(&range) {
            std::mem::forget(range);
            return Err(error);
        }
        Ok(range)
    }

    fn is_linked(&self, from: &Self) -> Result<bool, MemoryError> {
        self.context.reaches(&from.context)
    }

    fn copy_across(
        &self,
        stream: &mut CudaStream,
        to: &Arc<VmmMapping>,
        offset: u64,
        source: &Self,
        from: &Arc<VmmMapping>,
        part: Range<u64>,
    ) -> Result<(), MemoryError> {
        let len = check_across(&part, from.bytes)?;
        check_copy(to.protection, offset, len, to.bytes)?;
        if !self.is_linked(source)? {
            return Err(NO_LINK);
        }
        from.let_read(&source.context, &self.context)?;
        let to = (Arc::<VmmMapping>::clone(to) as Arc<_>, to.address + offset);
        let from = (
            Arc::<VmmMapping>::clone(from) as Arc<_>,
            from.address + part.start,
        );
        stream.copy_across(to, from, len)
    }
}
