//! Functions of the driver, resolved once.
#![expect(
    unsafe_code,
    reason = "the driver is a C library that is loaded at run time"
)]

use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys;
use libloading::Library;

use super::result;
use crate::memory::MemoryError;

/// Names of the library. Programs are meant to load the first; development files put a stub without
/// function at the second.
const LIBRARY_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

macro_rules! driver_table {
    ($($field:ident = $symbol:ident($($argument:ty),*);)*) => {
        /// Functions of the driver that this library calls. Results are numbers: see the module
        /// `cuda`.
        pub(crate) struct Driver {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> u32,)*
        }

        // Checks the arguments against the generated bindings.
        const _: () = {
            $(let _: unsafe fn($($argument),*) -> sys::CUresult = sys::$symbol;)*
        };

        impl Driver {
            /// Resolves every function.
            fn find(library: &Library) -> Result<Self, String> {
                Ok(Self {
                    $($field: {
                        let name = concat!(stringify!($symbol), "\0").as_bytes();
                        // SAFETY: the library is NVIDIA's driver, where a function of this name has this
                        // signature in every version since 11.4: names with another one get a suffix.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($argument),*) -> u32>(name)
                        };
                        *symbol.map_err(|_| format!("it has no {}; expected version 11.4 (R470) or later", stringify!($symbol)))?
                    },)*
                })
            }
        }
    };
}

driver_table! {
    init = cuInit(c_uint);
    device_count = cuDeviceGetCount(*mut c_int);
    device_get = cuDeviceGet(*mut sys::CUdevice, c_int);
    device_name = cuDeviceGetName(*mut c_char, c_int, sys::CUdevice);
    device_uuid = cuDeviceGetUuid_v2(*mut sys::CUuuid, sys::CUdevice);
    device_attribute = cuDeviceGetAttribute(*mut c_int, sys::CUdevice_attribute, sys::CUdevice);
    primary_retain = cuDevicePrimaryCtxRetain(*mut sys::CUcontext, sys::CUdevice);
    primary_release = cuDevicePrimaryCtxRelease_v2(sys::CUdevice);
    context_push = cuCtxPushCurrent_v2(sys::CUcontext);
    context_pop = cuCtxPopCurrent_v2(*mut sys::CUcontext);
    context_synchronize = cuCtxSynchronize();
    memory_info = cuMemGetInfo_v2(*mut usize, *mut usize);
    granularity = cuMemGetAllocationGranularity(*mut usize, *const sys::CUmemAllocationProp, sys::CUmemAllocationGranularity_flags);
    address_reserve = cuMemAddressReserve(*mut sys::CUdeviceptr, usize, usize, sys::CUdeviceptr, c_ulonglong);
    address_free = cuMemAddressFree(sys::CUdeviceptr, usize);
    create = cuMemCreate(*mut sys::CUmemGenericAllocationHandle, usize, *const sys::CUmemAllocationProp, c_ulonglong);
    release = cuMemRelease(sys::CUmemGenericAllocationHandle);
    map = cuMemMap(sys::CUdeviceptr, usize, usize, sys::CUmemGenericAllocationHandle, c_ulonglong);
    unmap = cuMemUnmap(sys::CUdeviceptr, usize);
    set_access = cuMemSetAccess(sys::CUdeviceptr, usize, *const sys::CUmemAccessDesc, usize);
    export = cuMemExportToShareableHandle(*mut c_void, sys::CUmemGenericAllocationHandle, sys::CUmemAllocationHandleType, c_ulonglong);
    import = cuMemImportFromShareableHandle(*mut sys::CUmemGenericAllocationHandle, *mut c_void, sys::CUmemAllocationHandleType);
    alloc = cuMemAlloc_v2(*mut sys::CUdeviceptr, usize);
    free = cuMemFree_v2(sys::CUdeviceptr);
    address_range = cuMemGetAddressRange_v2(*mut sys::CUdeviceptr, *mut usize, sys::CUdeviceptr);
    ipc_get = cuIpcGetMemHandle(*mut sys::CUipcMemHandle, sys::CUdeviceptr);
    ipc_open = cuIpcOpenMemHandle_v2(*mut sys::CUdeviceptr, sys::CUipcMemHandle, c_uint);
    ipc_close = cuIpcCloseMemHandle(sys::CUdeviceptr);
    host_alloc = cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
    host_free = cuMemFreeHost(*mut c_void);
    host_register = cuMemHostRegister_v2(*mut c_void, usize, c_uint);
    host_unregister = cuMemHostUnregister(*mut c_void);
    copy_in = cuMemcpyHtoDAsync_v2(sys::CUdeviceptr, *const c_void, usize, sys::CUstream);
    fill = cuMemsetD8Async(sys::CUdeviceptr, c_uchar, usize, sys::CUstream);
    copy_out = cuMemcpyDtoH_v2(*mut c_void, sys::CUdeviceptr, usize);
    stream_create = cuStreamCreate(*mut sys::CUstream, c_uint);
    stream_destroy = cuStreamDestroy_v2(sys::CUstream);
    stream_synchronize = cuStreamSynchronize(sys::CUstream);
    event_create = cuEventCreate(*mut sys::CUevent, c_uint);
    event_record = cuEventRecord(sys::CUevent, sys::CUstream);
    event_query = cuEventQuery(sys::CUevent);
    event_synchronize = cuEventSynchronize(sys::CUevent);
    event_destroy = cuEventDestroy_v2(sys::CUevent);
    module_load = cuModuleLoadData(*mut sys::CUmodule, *const c_void);
    module_unload = cuModuleUnload(sys::CUmodule);
    module_function = cuModuleGetFunction(*mut sys::CUfunction, sys::CUmodule, *const c_char);
    launch = cuLaunchKernel(sys::CUfunction, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, sys::CUstream, *mut *mut c_void, *mut *mut c_void);
}

impl Driver {
    /// Returns the driver, initialized. The first answer holds for the life of the process.
    pub fn get() -> Result<&'static Self, MemoryError> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        let driver = DRIVER.get_or_init(Self::load).as_ref();
        driver.map_err(|reason| MemoryError::NoDriver {
            reason: reason.clone(),
        })
    }

    fn load() -> Result<Self, String> {
        let driver = Self::find(Self::library()?)?;
        // SAFETY: 0 is the only valid flag, and the call is allowed at any time.
        match unsafe { (driver.init)(0) } {
            0 => Ok(driver),
            code => Err(format!("cuInit answered {} ({code})", result::name(code))),
        }
    }

    /// Loads the library. It stays loaded until the process ends, because its functions are called
    /// until then.
    fn library() -> Result<&'static Library, String> {
        let mut reasons = Vec::new();
        for name in LIBRARY_NAMES {
            // SAFETY: opening a library runs its constructors; the names are those of NVIDIA's
            // driver, whose constructors require nothing of the program.
            match unsafe { Library::new(name) } {
                Ok(library) => return Ok(Box::leak(Box::new(library))),
                Err(error) => reasons.push(error.to_string()),
            }
        }
        let reasons = reasons.join("; ");
        Err(format!(
            "expected {}, found none that can be loaded ({reasons})",
            LIBRARY_NAMES[0]
        ))
    }
}
