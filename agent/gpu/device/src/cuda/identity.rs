//! Identity of a device without a context, because a context costs hundreds of MiB.
#![expect(unsafe_code, reason = "calls into the driver")]

use std::ffi::c_int;

use cudarc::driver::sys;

use super::context::device_count;
use super::driver::Driver;
use super::result::check;
use crate::{DeviceUuid, MemoryError};

/// Returns true if some library of this process has initialized the driver. This library does so at
/// the first use of a device; a child that is forked afterwards cannot use CUDA.
pub fn is_initialized() -> bool {
    Driver::is_initialized()
}

/// UUID of the device with this number.
///
/// # Errors
///
/// [`MemoryError`] if there is no usable driver or no such device.
pub fn device_uuid(number: u32) -> Result<DeviceUuid, MemoryError> {
    let found = device_count()?;
    let missing = MemoryError::NoSuchDevice {
        asked: number,
        found,
    };
    let ordinal = match c_int::try_from(number) {
        Ok(ordinal) if number < found => ordinal,
        _ => return Err(missing),
    };
    let driver = Driver::get()?;
    let mut device = 0;
    // SAFETY: `device` may be written, and the driver is initialized.
    let code = unsafe { (driver.device_get)(&raw mut device, ordinal) };
    check(code, "open a device")?;
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: `uuid` may be written; the device is the driver's.
    let code = unsafe { (driver.device_uuid)(&raw mut uuid, device) };
    check(code, "ask for a device's identity")?;
    Ok(DeviceUuid(uuid.bytes.map(|byte| byte as u8)))
}

/// Number of the device with this UUID in this process; `None` if the process does not see it
/// (`CUDA_VISIBLE_DEVICES`, or a container without the device).
///
/// # Errors
///
/// [`MemoryError`] if there is no usable driver.
pub fn device_number(uuid: DeviceUuid) -> Result<Option<u32>, MemoryError> {
    for number in 0..device_count()? {
        if device_uuid(number)? == uuid {
            return Ok(Some(number));
        }
    }
    Ok(None)
}
