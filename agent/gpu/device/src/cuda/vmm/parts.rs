//! Ranges, chunks and mappings of virtual memory, and how each is freed.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::collections::BTreeSet;
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::sys;

use crate::cuda::context::CudaContext;
use crate::cuda::result::{NOT_SUPPORTED, check, note};
use crate::{Mapped, MemoryError, Protection};

/// Type of the exported handles.
pub(super) const DESCRIPTOR: sys::CUmemAllocationHandleType =
    sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Reserved addresses without memory.
#[derive(Debug)]
pub struct VmmRange {
    pub(super) context: Arc<CudaContext>,
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Device memory.
#[derive(Debug)]
pub struct VmmChunk(pub(super) Arc<Inner>);

#[derive(Debug)]
pub(super) struct Inner {
    pub context: Arc<CudaContext>,
    pub handle: sys::CUmemGenericAllocationHandle,
    pub bytes: u64,
}

/// Device memory at an address.
#[derive(Debug)]
pub struct VmmMapping {
    /// `None` once unmapped.
    pub(super) range: Option<VmmRange>,
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) protection: Protection,
    /// True if the driver enforces the protection.
    pub(super) held: bool,
    /// Other devices that may read it.
    pub(super) readers: Mutex<BTreeSet<sys::CUdevice>>,
    pub(super) _chunk: Arc<Inner>,
}

/// A device in the form that the driver expects.
fn location(device: sys::CUdevice) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: device,
    }
}

/// Properties of exportable memory on this device.
pub(super) fn properties(context: &CudaContext) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: DESCRIPTOR,
        location: location(context.device()),
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// Unit of chunk lengths, in bytes.
pub(super) fn granule(context: &CudaContext) -> Result<u64, MemoryError> {
    let current = context.enter()?;
    let properties = properties(context);
    let mut bytes = 0usize;
    let which = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: `bytes` may be written, the properties are complete.
    let code =
        unsafe { (current.driver.granularity)(&raw mut bytes, &raw const properties, which) };
    check(code, "ask for the granule of device memory")?;
    Ok(bytes as u64)
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter() {
            // SAFETY: created or imported once, released once, here. Mapped memory stays until it
            // is unmapped.
            let code = unsafe { (current.driver.release)(self.handle) };
            note(code, "release device memory");
        }
    }
}

impl Drop for VmmRange {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter() {
            // SAFETY: reserved with this address and length, freed once, here; nothing is mapped
            // there.
            let code = unsafe { (current.driver.address_free)(self.address, self.bytes as usize) };
            note(code, "free device addresses");
        }
    }
}

impl VmmMapping {
    /// Sets the protection of a mapping, which allows no access before. A driver can lack read-only
    /// mappings ([cuMemSetAccess] may return that it does not support them): then only this library
    /// respects the protection.
    ///
    /// [cuMemSetAccess]: https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
    pub(super) fn protect(&mut self, context: &CudaContext) -> Result<(), MemoryError> {
        use sys::CUmemAccess_flags::{
            CU_MEM_ACCESS_FLAGS_PROT_READ as READ, CU_MEM_ACCESS_FLAGS_PROT_READWRITE as READ_WRITE,
        };
        let device = context.device();
        let code = match self.protection {
            Protection::ReadWrite => self.set_access(context, device, READ_WRITE)?,
            Protection::ReadOnly => match self.set_access(context, device, READ)? {
                NOT_SUPPORTED => {
                    self.held = false;
                    tracing::debug!("the driver has no read-only mappings");
                    self.set_access(context, device, READ_WRITE)?
                }
                code => code,
            },
        };
        check(code, "set the protection of device memory")
    }

    /// Lets another device read the mapping over a link. Memory of `cuMemCreate` has no other way:
    /// `cuCtxEnablePeerAccess` is for that of `cuMemAlloc`
    /// ([FBGEMM#1875](https://github.com/pytorch/FBGEMM/pull/1875)).
    pub(super) fn let_read(
        &self,
        context: &CudaContext,
        reader: &CudaContext,
    ) -> Result<(), MemoryError> {
        use sys::CUmemAccess_flags::{
            CU_MEM_ACCESS_FLAGS_PROT_READ as READ, CU_MEM_ACCESS_FLAGS_PROT_READWRITE as READ_WRITE,
        };
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        if readers.contains(&reader.device()) {
            return Ok(());
        }
        let code = match self.set_access(context, reader.device(), READ)? {
            NOT_SUPPORTED => self.set_access(context, reader.device(), READ_WRITE)?,
            code => code,
        };
        check(code, "let another device read device memory")?;
        readers.insert(reader.device());
        Ok(())
    }

    fn set_access(
        &self,
        context: &CudaContext,
        device: sys::CUdevice,
        flags: sys::CUmemAccess_flags,
    ) -> Result<u32, MemoryError> {
        let current = context.enter()?;
        let location = location(device);
        let access = sys::CUmemAccessDesc { location, flags };
        let (address, bytes) = (self.address, self.bytes as usize);
        // SAFETY: all of the range is mapped, and one description is passed.
        Ok(unsafe { (current.driver.set_access)(address, bytes, &raw const access, 1) })
    }

    /// Returns true if the driver enforces the protection, so that no kernel of this process can
    /// write to a read-only mapping.
    pub fn is_held(&self) -> bool {
        self.held
    }
}

/// Unmaps the memory in `range`.
pub(super) fn unmap(range: &VmmRange) -> Result<(), MemoryError> {
    let current = range.context.enter()?;
    // SAFETY: all of the range is mapped, by one call of `map`; streams keep the mapping until
    // their copies are done.
    let code = unsafe { (current.driver.unmap)(range.address, range.bytes as usize) };
    check(code, "unmap device memory")
}

impl Drop for VmmMapping {
    fn drop(&mut self) {
        if let Some(range) = self.range.take()
            && let Err(error) = unmap(&range)
        {
            tracing::debug!(%error, "device addresses stay taken");
            // Addresses that are still mapped must not be reused.
            std::mem::forget(range);
        }
    }
}

impl Mapped for VmmMapping {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn protection(&self) -> Protection {
        self.protection
    }
}
