//! A device and its primary context.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys;

use super::driver::Driver;
use super::result::{DEVICE_UNAVAILABLE, INVALID_VALUE, OUT_OF_MEMORY, check, note};
use crate::{DeviceInfo, DeviceMode, DeviceUuid, MemoryError};

/// `CU_COMPUTEMODE_EXCLUSIVE_PROCESS`.
const EXCLUSIVE_PROCESS: c_int = 3;
/// `CU_DEVICE_ATTRIBUTE_MPS_ENABLED`, since version 12.3.
const MPS_ENABLED: u32 = 133;

/// Number of devices that the driver shows to this process.
///
/// # Errors
///
/// [`MemoryError`] if there is no usable driver.
pub fn device_count() -> Result<u32, MemoryError> {
    let driver = Driver::get()?;
    let mut count = 0;
    // SAFETY: `count` may be written, and the driver is initialized.
    let code = unsafe { (driver.device_count)(&raw mut count) };
    check(code, "count devices")?;
    Ok(u32::try_from(count).unwrap_or(0))
}

/// The primary context of a device, retained while a value of this device lives.
pub struct CudaContext {
    driver: &'static Driver,
    device: sys::CUdevice,
    handle: sys::CUcontext,
}

// SAFETY: a context is a handle that the driver lets every thread make current; it does its own
// locking.
unsafe impl Send for CudaContext {}
// SAFETY: as above.
unsafe impl Sync for CudaContext {}

impl std::fmt::Debug for CudaContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "CudaContext(device {})", self.device)
    }
}

/// Keeps its context current on the calling thread until it is dropped. Meanwhile captures of graphs
/// do not forbid calls of this thread, and calls do not end captures, apart from waits.
pub struct Current<'a> {
    pub(crate) driver: &'static Driver,
    _context: &'a CudaContext,
    /// Capture mode of the thread before; `None` if it could not be changed.
    mode: Option<sys::CUstreamCaptureMode>,
    /// The context is on this thread's stack of contexts, so the value must not leave the thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Drop for Current<'_> {
    fn drop(&mut self) {
        if let Some(mut mode) = self.mode {
            // SAFETY: `mode` may be written, and is a mode that the driver returned.
            let code = unsafe { (self.driver.capture_mode)(&raw mut mode) };
            note(code, "restore a thread's capture mode");
        }
        let mut popped = ptr::null_mut();
        // SAFETY: the creation of this value pushed the context on this thread, and contexts pushed
        // later have been popped.
        note(
            unsafe { (self.driver.context_pop)(&raw mut popped) },
            "pop a context",
        );
    }
}

impl CudaContext {
    /// Retains the context of the device with this number.
    pub(super) fn open(number: u32) -> Result<Arc<Self>, MemoryError> {
        let count = device_count()?;
        let missing = MemoryError::NoSuchDevice {
            asked: number,
            found: count,
        };
        let Ok(ordinal) = c_int::try_from(number) else {
            return Err(missing);
        };
        if number >= count {
            return Err(missing);
        }
        let driver = Driver::get()?;
        let mut device = 0;
        // SAFETY: `device` may be written.
        let code = unsafe { (driver.device_get)(&raw mut device, ordinal) };
        check(code, "open a device")?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` may be written, `device` is one of the driver's. Released on drop.
        let code = unsafe { (driver.primary_retain)(&raw mut handle, device) };
        if code == DEVICE_UNAVAILABLE {
            return Err(MemoryError::Unavailable { number });
        }
        check(code, "open a device's context")?;
        Ok(Arc::new(Self {
            driver,
            device,
            handle,
        }))
    }

    /// Makes the context current on the calling thread.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Driver`] if the context cannot be entered.
    pub fn enter(&self) -> Result<Current<'_>, MemoryError> {
        // SAFETY: the handle is retained as long as `self` lives.
        let code = unsafe { (self.driver.context_push)(self.handle) };
        check(code, "enter a device's context")?;
        let mut mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        // SAFETY: `mode` may be written; the driver writes one of the three modes.
        let code = unsafe { (self.driver.capture_mode)(&raw mut mode) };
        note(code, "relax a thread's capture mode");
        Ok(Current {
            driver: self.driver,
            _context: self,
            mode: (code == 0).then_some(mode),
            _here: std::marker::PhantomData,
        })
    }

    pub(super) fn device(&self) -> sys::CUdevice {
        self.device
    }

    /// Returns true if the device has this attribute.
    pub(super) fn can(&self, which: sys::CUdevice_attribute) -> Result<bool, MemoryError> {
        Ok(self.attribute(which as u32)? != 0)
    }

    /// Returns true if this device can read the other's memory over a link, without the host.
    pub(super) fn reaches(&self, other: &Self) -> Result<bool, MemoryError> {
        let mut can = 0;
        // SAFETY: `can` may be written; both devices are the driver's.
        let code =
            unsafe { (self.driver.can_access_peer)(&raw mut can, self.device, other.device) };
        check(code, "ask for a link between devices")?;
        Ok(can != 0)
    }

    /// Value of an attribute. One that the driver is too old to know counts as 0.
    fn attribute(&self, which: u32) -> Result<c_int, MemoryError> {
        let mut value = 0;
        // SAFETY: `value` may be written; the device is the driver's.
        let code = unsafe { (self.driver.attribute_number)(&raw mut value, which, self.device) };
        if code == INVALID_VALUE {
            return Ok(0);
        }
        check(code, "ask for an attribute of a device")?;
        Ok(value)
    }

    /// Waits for everything that this process has queued on the device.
    pub(super) fn synchronize(&self) -> Result<(), MemoryError> {
        let current = self.enter()?;
        // SAFETY: a context is current.
        let code = unsafe { (current.driver.context_synchronize)() };
        check(code, "wait for a device")
    }

    /// Waits for everything that the calling thread's current context has queued, if it is another
    /// one than this.
    pub(super) fn synchronize_others(&self) -> Result<(), MemoryError> {
        let mut current = ptr::null_mut();
        // SAFETY: `found` may be written, and the driver is initialized.
        let code = unsafe { (self.driver.context_current)(&raw mut current) };
        // If the driver is gone, so is all work, and the wait for this context fails, too.
        note(code, "ask for the current context");
        if code != 0 || current.is_null() || current == self.handle {
            return Ok(());
        }
        // SAFETY: a context is current.
        let code = unsafe { (self.driver.context_synchronize)() };
        check(code, "wait for a context of the program")
    }

    /// Number of free and of all bytes.
    pub(super) fn memory(&self) -> Result<(u64, u64), MemoryError> {
        let current = self.enter()?;
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: both may be written, and a context is current.
        let code = unsafe { (current.driver.memory_info)(&raw mut free, &raw mut total) };
        check(code, "ask for free device memory")?;
        Ok((free as u64, total as u64))
    }

    /// The device's identity.
    pub(super) fn uuid(&self) -> Result<DeviceUuid, MemoryError> {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: `uuid` may be written.
        let code = unsafe { (self.driver.device_uuid)(&raw mut uuid, self.device) };
        check(code, "ask for a device's identity")?;
        Ok(DeviceUuid(uuid.bytes.map(|byte| byte as u8)))
    }

    /// The driver's description of the device.
    pub(super) fn info(&self) -> Result<DeviceInfo, MemoryError> {
        let (free_bytes, total_bytes) = self.memory()?;
        let uuid = self.uuid()?;
        let mut name = [0u8; 256];
        let into = name.as_mut_ptr().cast::<c_char>();
        // SAFETY: 256 bytes may be written there; the driver terminates the name with 0.
        let code = unsafe { (self.driver.device_name)(into, 256, self.device) };
        check(code, "ask for a device's name")?;
        let name = CStr::from_bytes_until_nul(&name).unwrap_or_default();
        Ok(DeviceInfo {
            uuid,
            name: name.to_string_lossy().into_owned(),
            total_bytes,
            free_bytes,
            mode: self.mode()?,
            pci_address: self.pci_address()?,
        })
    }

    fn pci_address(&self) -> Result<Option<String>, MemoryError> {
        let mut address = [0u8; 32];
        let into = address.as_mut_ptr().cast::<c_char>();
        // SAFETY: 32 bytes may be written there; the driver terminates the text with 0.
        let code = unsafe { (self.driver.device_pci)(into, 32, self.device) };
        check(code, "ask for a device's PCI address")?;
        let address = CStr::from_bytes_until_nul(&address).unwrap_or_default();
        let address = address.to_string_lossy().into_owned();
        Ok(Some(address).filter(|address| !address.is_empty()))
    }

    /// Mode in which processes may use the device. An administrator can change it at any time.
    fn mode(&self) -> Result<DeviceMode, MemoryError> {
        // In exclusive mode the one process can be that of MPS.
        if self.attribute(MPS_ENABLED)? != 0 {
            return Ok(DeviceMode::Mps);
        }
        let mode = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE;
        Ok(match self.attribute(mode as u32)? {
            EXCLUSIVE_PROCESS => DeviceMode::Exclusive,
            _ => DeviceMode::Shared,
        })
    }

    /// Checks the result of an `action` that allocates `asked_bytes` of device memory.
    pub(super) fn check_taken(
        &self,
        code: u32,
        action: &'static str,
        asked_bytes: u64,
    ) -> Result<(), MemoryError> {
        if code != OUT_OF_MEMORY {
            return check(code, action);
        }
        let (free_bytes, total_bytes) = self.memory().unwrap_or_default();
        Err(MemoryError::OutOfMemory {
            asked_bytes,
            free_bytes,
            total_bytes,
        })
    }
}

impl Drop for CudaContext {
    fn drop(&mut self) {
        // SAFETY: retained once when this value was created; every value created in the context has
        // kept this one alive.
        let code = unsafe { (self.driver.primary_release)(self.device) };
        note(code, "release a device's context");
    }
}
