//! Host memory that the device reads directly.
#![expect(
    unsafe_code,
    reason = "calls into the driver; memory that it allocates"
)]

use std::ffi::c_void;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;

use cudarc::driver::sys;

use super::context::CudaContext;
use super::result::{NOT_SUPPORTED, check, note};
use crate::{HostSlice, MemoryError};

/// Pinned host memory.
pub struct CudaPinned {
    context: Arc<CudaContext>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the memory belongs to this value alone, and is ordinary memory to every thread.
unsafe impl Send for CudaPinned {}
// SAFETY: as above; writing needs `&mut`.
unsafe impl Sync for CudaPinned {}

impl CudaPinned {
    pub(super) fn new(context: &Arc<CudaContext>, len: usize) -> Result<Self, MemoryError> {
        let current = context.enter()?;
        let mut start = ptr::null_mut();
        let flags = sys::CU_MEMHOSTALLOC_PORTABLE;
        // SAFETY: `start` may be written, and a context is current. Freed on drop.
        let code = unsafe { (current.driver.host_alloc)(&raw mut start, len.max(1), flags) };
        check(code, "allocate pinned host memory")?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(MemoryError::Unsupported {
            what: "pinned host memory",
            next: "copy from ordinary memory",
        })?;
        // SAFETY: the driver has just allocated `len` bytes there, and no other code has their
        // address.
        unsafe { ptr::write_bytes(start.as_ptr(), 0, len) };
        Ok(Self {
            context: Arc::clone(context),
            start,
            len,
        })
    }
}

impl Deref for CudaPinned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` bytes, written when they were allocated, that live as long as `self`;
        // writing needs `&mut self`.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for CudaPinned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` is the only reference.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for CudaPinned {
    fn drop(&mut self) {
        if let Ok(current) = self.context.enter() {
            // SAFETY: allocated by `new`, freed once, here; streams keep the value until their
            // copies are done.
            let code = unsafe { (current.driver.host_free)(self.start.as_ptr().cast()) };
            note(code, "free pinned host memory");
        }
    }
}

/// Host memory of another owner, pinned.
#[derive(Debug)]
pub struct CudaRegistration {
    context: Arc<CudaContext>,
    memory: HostSlice,
}

impl CudaRegistration {
    /// Pins the pages of `memory` for copies in this context. With `read_only` the driver learns that
    /// the device only reads them; without it the driver accepts only pages that the processor may
    /// write at this moment.
    ///
    /// Not for other contexts (`CU_MEMHOSTREGISTER_PORTABLE`): each device has its own mappings,
    /// and the driver would make page tables of all devices for each of them.
    pub(super) fn new(
        context: &Arc<CudaContext>,
        memory: &HostSlice,
        read_only: bool,
    ) -> Result<Self, MemoryError> {
        let bytes = memory.bytes();
        // The driver locks whole pages, and the store's mappings are page-aligned.
        let page_bytes = rustix::param::page_size();
        if bytes.is_empty() || !(bytes.as_ptr() as usize).is_multiple_of(page_bytes) {
            return Err(MemoryError::Unsupported {
                what: "registering memory that does not begin at a page",
                next: "copy through pinned memory",
            });
        }
        if !read_only && memory.stays_read_only() {
            return Err(MemoryError::Unsupported {
                what: "registering read-only pages with this driver",
                next: "copy through pinned memory, or map pages that can be made writable",
            });
        }
        let len = bytes.len().next_multiple_of(page_bytes);
        let start = bytes.as_ptr().cast_mut().cast::<c_void>();
        let flags = if read_only {
            sys::CU_MEMHOSTREGISTER_READ_ONLY
        } else {
            0
        };
        let current = context.enter()?;
        // SAFETY: the pages stay mapped while the owner of their bytes lives, and this value keeps
        // the owner. No copy makes the device write there. The driver locks the pages that the
        // bytes touch; it does not change them.
        let call = || unsafe { (current.driver.host_register)(start, len, flags) };
        let register = || match call() {
            NOT_SUPPORTED => Err(MemoryError::Unsupported {
                what: "registering host memory with this driver",
                next: "copy through pinned memory",
            }),
            code => check(code, "register host memory").map(|()| Self {
                context: Arc::clone(context),
                memory: memory.clone(),
            }),
        };
        if read_only {
            return register();
        }
        let registered = memory.while_registrable(register);
        registered.map_err(|error| MemoryError::io("make pages registrable", error))?
    }
}

impl Drop for CudaRegistration {
    fn drop(&mut self) {
        let start = self.memory.bytes().as_ptr().cast_mut().cast::<c_void>();
        if let Ok(current) = self.context.enter() {
            // SAFETY: registered by `new` at this address, unregistered once, here; the memory is
            // still mapped.
            let code = unsafe { (current.driver.host_unregister)(start) };
            note(code, "unregister host memory");
        }
    }
}
