//! Functions of the driver, resolved once.
#![expect(
    unsafe_code,
    reason = "the driver is a C library that is loaded at run time"
)]

use std::error::Error;
use std::ffi::{c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::driver::sys;
use libloading::Library;

use super::result;
use crate::MemoryError;

/// Names of the library. Programs are meant to load the first; development files put a stub without
/// function at the second.
const LIBRARY_NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

/// `dlopen` finds the library only if it is loaded already (glibc's and musl's number).
const RTLD_NOLOAD: c_int = 4;

/// Resolves a function.
macro_rules! find {
    ($library:ident, $symbol:ident($($argument:ty),*)) => {{
        let name = concat!(stringify!($symbol), "\0").as_bytes();
        // SAFETY: the library is NVIDIA's driver, where a function of this name has this
        // signature in every version since 11.4: names with another one get a suffix.
        let symbol = unsafe {
            $library.get::<unsafe extern "C" fn($($argument),*) -> u32>(name)
        };
        *symbol.map_err(|error| {
            let (name, why) = (stringify!($symbol), reason(&error));
            MemoryError::NoDriver {
                reason: format!("it has no {name}; expected version 11.4 (R470) or later ({why})"),
            }
        })?
    }};
}

macro_rules! driver_table {
    (
        checked { $($field:ident = $symbol:ident($($argument:ty),*);)* }
        unchecked { $($other:ident = $other_symbol:ident($($other_argument:ty),*);)* }
    ) => {
        /// Functions of the driver that this library calls. Results are numbers: see the module
        /// `cuda`.
        pub(crate) struct Driver {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> u32,)*
            $(pub $other: unsafe extern "C" fn($($other_argument),*) -> u32,)*
        }

        // Checks the arguments against the generated bindings.
        const _: () = {
            $(let _: unsafe fn($($argument),*) -> sys::CUresult = sys::$symbol;)*
        };

        impl Driver {
            /// Resolves every function.
            fn find(library: &Library) -> Result<Self, MemoryError> {
                Ok(Self {
                    $($field: find!(library, $symbol($($argument),*)),)*
                    $($other: find!(library, $other_symbol($($other_argument),*)),)*
                })
            }
        }
    };
}

driver_table! {
    checked {
        init = cuInit(c_uint);
        device_count = cuDeviceGetCount(*mut c_int);
        device_get = cuDeviceGet(*mut sys::CUdevice, c_int);
        device_name = cuDeviceGetName(*mut c_char, c_int, sys::CUdevice);
        device_pci = cuDeviceGetPCIBusId(*mut c_char, c_int, sys::CUdevice);
        device_uuid = cuDeviceGetUuid_v2(*mut sys::CUuuid, sys::CUdevice);
        primary_retain = cuDevicePrimaryCtxRetain(*mut sys::CUcontext, sys::CUdevice);
        primary_release = cuDevicePrimaryCtxRelease_v2(sys::CUdevice);
        context_push = cuCtxPushCurrent_v2(sys::CUcontext);
        context_pop = cuCtxPopCurrent_v2(*mut sys::CUcontext);
        context_current = cuCtxGetCurrent(*mut sys::CUcontext);
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
        copy_between = cuMemcpyDtoDAsync_v2(sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream);
        can_access_peer = cuDeviceCanAccessPeer(*mut c_int, sys::CUdevice, sys::CUdevice);
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
        capture_mode = cuThreadExchangeStreamCaptureMode(*mut sys::CUstreamCaptureMode);
        launch_host = cuLaunchHostFunc(sys::CUstream, sys::CUhostFn, *mut c_void);
    }
    unchecked {
        // An attribute as a number: newer ones are not in the bindings.
        attribute_number = cuDeviceGetAttribute(*mut c_int, c_uint, sys::CUdevice);
    }
}

/// The driver, once it has been initialized.
static DRIVER: OnceLock<Driver> = OnceLock::new();
/// The functions of a driver that could be loaded and not be initialized yet.
static LOADED: Mutex<Option<Driver>> = Mutex::new(None);

impl Driver {
    /// Returns the driver, initialized. Success holds for the life of the process. After an error
    /// the next call tries anew: `cuInit` answers `CUDA_ERROR_SYSTEM_NOT_READY` for minutes after
    /// the machine has started.
    pub fn get() -> Result<&'static Self, MemoryError> {
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have been faster.
        if let Some(driver) = DRIVER.get() {
            return Ok(driver);
        }
        let driver = loaded.take().map_or_else(Self::load, Ok)?;
        // SAFETY: 0 is the only valid flag, and the call is allowed at any time.
        match unsafe { (driver.init)(0) } {
            0 => Ok(DRIVER.get_or_init(|| driver)),
            code => {
                *loaded = Some(driver);
                let reason = format!("cuInit answered {} ({code})", result::name(code));
                Err(MemoryError::NoDriver { reason })
            }
        }
    }

    /// Returns true if some library of this process has initialized the driver. Does not initialize
    /// it, and does not load it either if nothing has.
    pub fn is_initialized() -> bool {
        use libloading::os::unix::{Library as Loaded, RTLD_LAZY};
        if DRIVER.get().is_some() {
            return true;
        }
        let flags = RTLD_LAZY | RTLD_NOLOAD;
        // SAFETY: a library that is loaded already runs no constructors.
        let library = unsafe { Loaded::open(Some(LIBRARY_NAMES[0]), flags) };
        let Ok(library) = library else {
            return false;
        };
        let mut count: c_int = 0;
        // SAFETY: the function has this signature in every version.
        let symbol = unsafe {
            library.get::<unsafe extern "C" fn(*mut c_int) -> u32>(b"cuDeviceGetCount\0")
        };
        // SAFETY: `count` may be written. Before `cuInit` the call answers that the driver is not
        // initialized, and changes nothing.
        symbol.is_ok_and(|call| unsafe { call(&raw mut count) } != result::NOT_INITIALIZED)
    }

    fn load() -> Result<Self, MemoryError> {
        Self::find(Self::library()?)
    }

    /// Loads the library. It stays loaded until the process ends, because its functions are called
    /// until then.
    fn library() -> Result<&'static Library, MemoryError> {
        static LIBRARY: OnceLock<Library> = OnceLock::new();
        if let Some(library) = LIBRARY.get() {
            return Ok(library);
        }
        let mut reasons = Vec::new();
        for name in LIBRARY_NAMES {
            // SAFETY: opening a library runs its constructors; the names are those of NVIDIA's
            // driver, whose constructors require nothing of the program.
            match unsafe { Library::new(name) } {
                Ok(library) => return Ok(LIBRARY.get_or_init(|| library)),
                Err(error) => reasons.push(reason(&error)),
            }
        }
        let reasons = reasons.join("; ");
        let name = LIBRARY_NAMES[0];
        Err(MemoryError::NoDriver {
            reason: format!("expected {name}, found none that can be loaded ({reasons})"),
        })
    }
}

/// The dynamic linker's own words, which `libloading` has as the source of its error.
fn reason(error: &libloading::Error) -> String {
    error
        .source()
        .map_or_else(|| error.to_string(), ToString::to_string)
}
