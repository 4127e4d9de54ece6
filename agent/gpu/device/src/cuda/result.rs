//! Results of the driver.

use crate::MemoryError;

/// `CUDA_ERROR_NOT_READY`: the event has not happened yet.
pub(super) const NOT_READY: u32 = 600;
/// `CUDA_ERROR_INVALID_VALUE`.
pub(super) const INVALID_VALUE: u32 = 1;
/// `CUDA_ERROR_NOT_SUPPORTED`.
pub(super) const NOT_SUPPORTED: u32 = 801;
/// `CUDA_ERROR_NOT_INITIALIZED`.
pub(super) const NOT_INITIALIZED: u32 = 3;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub(super) const OUT_OF_MEMORY: u32 = 2;

/// `CUDA_ERROR_DEVICE_UNAVAILABLE`: another process has the device for itself.
pub(super) const DEVICE_UNAVAILABLE: u32 = 46;

/// Name of a `CUresult` that the calls of this library can return.
pub(super) fn name(code: u32) -> &'static str {
    match code {
        INVALID_VALUE => "CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => "CUDA_ERROR_OUT_OF_MEMORY",
        NOT_INITIALIZED => "CUDA_ERROR_NOT_INITIALIZED",
        4 => "CUDA_ERROR_DEINITIALIZED",
        34 => "CUDA_ERROR_STUB_LIBRARY",
        DEVICE_UNAVAILABLE => "CUDA_ERROR_DEVICE_UNAVAILABLE",
        100 => "CUDA_ERROR_NO_DEVICE",
        101 => "CUDA_ERROR_INVALID_DEVICE",
        200 => "CUDA_ERROR_INVALID_IMAGE",
        201 => "CUDA_ERROR_INVALID_CONTEXT",
        205 => "CUDA_ERROR_MAP_FAILED",
        208 => "CUDA_ERROR_ALREADY_MAPPED",
        209 => "CUDA_ERROR_NO_BINARY_FOR_GPU",
        214 => "CUDA_ERROR_ECC_UNCORRECTABLE",
        217 => "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED",
        218 => "CUDA_ERROR_INVALID_PTX",
        222 => "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        304 => "CUDA_ERROR_OPERATING_SYSTEM",
        400 => "CUDA_ERROR_INVALID_HANDLE",
        500 => "CUDA_ERROR_NOT_FOUND",
        NOT_READY => "CUDA_ERROR_NOT_READY",
        700 => "CUDA_ERROR_ILLEGAL_ADDRESS",
        701 => "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        709 => "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        711 => "CUDA_ERROR_TOO_MANY_PEERS",
        712 => "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
        713 => "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
        719 => "CUDA_ERROR_LAUNCH_FAILED",
        800 => "CUDA_ERROR_NOT_PERMITTED",
        NOT_SUPPORTED => "CUDA_ERROR_NOT_SUPPORTED",
        802 => "CUDA_ERROR_SYSTEM_NOT_READY",
        803 => "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        804 => "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
        805 => "CUDA_ERROR_MPS_CONNECTION_FAILED",
        806 => "CUDA_ERROR_MPS_RPC_FAILURE",
        807 => "CUDA_ERROR_MPS_SERVER_NOT_READY",
        808 => "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
        809 => "CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED",
        810 => "CUDA_ERROR_MPS_CLIENT_TERMINATED",
        900 => "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
        901 => "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
        902 => "CUDA_ERROR_STREAM_CAPTURE_MERGE",
        903 => "CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
        904 => "CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
        905 => "CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
        906 => "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
        907 => "CUDA_ERROR_CAPTURED_EVENT",
        908 => "CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
        999 => "CUDA_ERROR_UNKNOWN",
        _ => "an error that cuda.h of the driver's version names",
    }
}

/// Converts the result of a call of the driver, which was made for `action`.
pub fn check(code: u32, action: &'static str) -> Result<(), MemoryError> {
    if code == 0 {
        return Ok(());
    }
    Err(MemoryError::Driver {
        action,
        code,
        name: name(code).to_owned(),
    })
}

/// Logs the result of a clean-up that has no caller to report to.
pub(super) fn note(code: u32, action: &'static str) {
    if code != 0 {
        tracing::debug!(code, name = name(code), "cannot {action}");
    }
}
