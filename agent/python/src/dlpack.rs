//! DLPack (dlpack.h 1.1; the array API standard, `__dlpack__`): how NumPy, JAX, CuPy, PyTorch and others take
//! memory over without another binding.
#![expect(unsafe_code, reason = "DLPack is C structures behind a capsule")]

use std::any::Any;
use std::ffi::{CStr, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyCapsule};
use tetris_agent::device::StreamHandle;
use tetris_agent::{DetachedTensor, Region};
use tetris_store_layout::Dtype;

use crate::foreign_bytes;

/// `kDLCPU`, device 0.
pub(crate) const CPU: (i32, i32) = (1, 0);

const UNVERSIONED: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
/// `kDLCUDA`; the number is the driver's.
pub(crate) const CUDA: i32 = 2;

/// `DLPACK_FLAG_BITMASK_READ_ONLY`
pub(crate) const READ_ONLY: u64 = 1;
/// `DLPACK_FLAG_BITMASK_IS_COPIED`
pub(crate) const IS_COPIED: u64 = 2;

/// Request of the consumer.
pub(crate) struct Request<'py> {
    pub(crate) stream: Option<Bound<'py, PyAny>>,
    pub(crate) max_version: Option<(u32, u32)>,
    pub(crate) device: Option<(i32, i32)>,
    pub(crate) copy: Option<bool>,
    /// True if the consumer must not write.
    pub(crate) read_only: bool,
}

#[repr(C)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

/// `DLTensor`
#[repr(C)]
struct Array {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

/// `DLManagedTensor`
#[repr(C)]
struct Managed {
    array: Array,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

/// `DLManagedTensorVersioned`
#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    array: Array,
}

/// An export with all that it points to. The consumer sees `managed`, which comes first.
#[repr(C)]
struct Export<M> {
    managed: M,
    shape: Vec<i64>,
    strides: Vec<i64>,
    _memory: Memory,
}

/// Owner of the memory, and with it of the reference to the store or the lease at the mirror.
pub(crate) type Memory = Option<Arc<dyn Any + Send + Sync>>;

/// Exported memory.
pub(crate) struct Source<'a> {
    pub(crate) address: usize,
    pub(crate) dtype: Dtype,
    pub(crate) shape: &'a [u64],
    /// `DLDevice`: kind and number.
    pub(crate) device: (i32, i32),
    pub(crate) memory: Memory,
}

/// A capsule over the tensor's memory, which `memory` keeps.
pub(crate) fn export<'py>(
    py: Python<'py>,
    tensor: &DetachedTensor,
    memory: Arc<dyn Any + Send + Sync>,
    request: &Request<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    if request
        .stream
        .as_ref()
        .is_some_and(|stream| !stream.is_none())
    {
        return Err(PyBufferError::new_err(
            "stream must be None for a tensor in host memory",
        ));
    }
    if request.device.is_some_and(|device| device != CPU) {
        return Err(PyBufferError::new_err(format!(
            "the tensor is in host memory, device {CPU:?}; found dl_device {:?}",
            request.device
        )));
    }
    let copied;
    let (tensor, copied) = if request.copy == Some(true) {
        copied = copy_of(tensor)?;
        (&copied, true)
    } else {
        (tensor, false)
    };
    let flags = match (copied, request.read_only) {
        (true, _) => IS_COPIED,
        (false, true) => READ_ONLY,
        (false, false) => 0,
    };
    let memory = if copied {
        let region = tensor.region.clone();
        region.map(|region| region as Arc<dyn Any + Send + Sync>)
    } else {
        Some(memory)
    };
    let source = Source {
        address: tensor.address().get(),
        dtype: tensor.dtype,
        shape: &tensor.shape,
        device: CPU,
        memory,
    };
    capsule_of(py, &source, request.max_version, flags)
}

/// A capsule, versioned if the consumer knows that.
pub(crate) fn capsule_of<'py>(
    py: Python<'py>,
    source: &Source<'_>,
    max_version: Option<(u32, u32)>,
    flags: u64,
) -> PyResult<Bound<'py, PyAny>> {
    if max_version.is_some_and(|(major, _)| major >= 1) {
        let export = Export::new(source, |array| ManagedVersioned {
            major: 1,
            minor: 0,
            context: ptr::null_mut(),
            deleter: Some(delete_versioned),
            flags,
            array,
        })?;
        return capsule(py, export, VERSIONED, drop_versioned);
    }
    // Before version 1.0 there is no way to say that memory is read-only. Those who ask so, such as JAX, do not write;
    // a write would copy the page for this process.
    let export = Export::new(source, |array| Managed {
        array,
        context: ptr::null_mut(),
        deleter: Some(delete),
    })?;
    capsule(py, export, UNVERSIONED, drop_unversioned)
}

/// Private memory of `len` bytes, after `fill` has written all of them.
pub(crate) fn filled(
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> PyResult<()>,
) -> PyResult<Arc<Region>> {
    let region = Region::zeroed(len);
    let region = region.ok_or_else(|| PyMemoryError::new_err("no memory for a copy"))?;
    let begin = ptr::with_exposed_provenance_mut::<u8>(region.address().get());
    // SAFETY: these are the region's initialized bytes, and no one else knows it yet.
    fill(unsafe { std::slice::from_raw_parts_mut(begin, len) })?;
    Ok(Arc::new(region))
}

/// The tensor in private memory.
fn copy_of(tensor: &DetachedTensor) -> PyResult<DetachedTensor> {
    let region = filled(tensor.len, |target| {
        // SAFETY: the tensor has `len` bytes, which `tensor` keeps, and which only consumers of its memory write to, if
        // it is private; the length of `target` is the same.
        unsafe { foreign_bytes::copy(tensor.address().get(), target) };
        Ok(())
    })?;
    Ok(DetachedTensor {
        id: None,
        origin: region.origin(),
        offset: 0,
        region: Some(region),
        ..tensor.clone()
    })
}

impl<M> Export<M> {
    fn new(source: &Source<'_>, managed: impl FnOnce(Array) -> M) -> PyResult<Box<Self>> {
        let dims = source.shape.iter().map(|&dim| i64::try_from(dim).ok());
        let (Some(mut shape), Some(dtype)) =
            (dims.collect::<Option<Vec<_>>>(), data_type(source.dtype))
        else {
            return Err(PyBufferError::new_err(format!(
                "DLPack has no {} {:?}",
                source.dtype, source.shape
            )));
        };
        let mut strides = vec![1; shape.len()];
        let mut step = 1i64;
        for (stride, &dim) in strides.iter_mut().zip(&shape).rev() {
            *stride = step;
            step = step.saturating_mul(dim.max(1));
        }
        let array = Array {
            data: ptr::with_exposed_provenance_mut(source.address),
            device: Device {
                kind: source.device.0,
                id: source.device.1,
            },
            ndim: i32::try_from(shape.len()).unwrap_or(i32::MAX),
            dtype,
            // The vectors' memory stays where it is when they move into the box.
            shape: shape.as_mut_ptr(),
            strides: strides.as_mut_ptr(),
            byte_offset: 0,
        };
        Ok(Box::new(Self {
            managed: managed(array),
            shape,
            strides,
            _memory: source.memory.clone(),
        }))
    }
}

/// `DLDataType`; the codes are those of dlpack.h.
fn data_type(dtype: Dtype) -> Option<DataType> {
    let code = match dtype {
        Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 0,
        Dtype::U8 | Dtype::U16 | Dtype::U32 | Dtype::U64 => 1,
        Dtype::F16 | Dtype::F32 | Dtype::F64 => 2,
        Dtype::BF16 => 4,
        Dtype::C64 => 5,
        Dtype::Bool => 6,
        Dtype::F8E4M3 => 10,
        Dtype::F8E4M3Fnuz => 11,
        Dtype::F8E5M2 => 12,
        Dtype::F8E5M2Fnuz => 13,
        Dtype::F8E8M0 => 14,
        Dtype::F6E2M3 => 15,
        Dtype::F6E3M2 => 16,
        Dtype::F4 => 17,
        _ => return None,
    };
    Some(DataType {
        code,
        bits: u8::try_from(dtype.bits()).ok()?,
        lanes: 1,
    })
}

fn capsule<'py, M>(
    py: Python<'py>,
    export: Box<Export<M>>,
    name: &'static CStr,
    destructor: ffi::PyCapsule_Destructor,
) -> PyResult<Bound<'py, PyAny>> {
    let pointer = NonNull::from(Box::leak(export));
    // SAFETY: the pointer is that of an export, which lives until its deleter is called: by the consumer, or by
    // the destructor if no one consumed the capsule.
    let capsule = unsafe {
        PyCapsule::new_with_pointer_and_destructor(py, pointer.cast(), name, Some(destructor))
    };
    match capsule {
        Ok(capsule) => Ok(capsule.into_any()),
        Err(error) => {
            // SAFETY: no capsule has it, so no one else will free it.
            drop(unsafe { Box::from_raw(pointer.as_ptr()) });
            Err(error)
        }
    }
}

/// Frees an export. Consumers may call it from any thread, without the interpreter's lock: it touches no Python
/// object.
unsafe extern "C" fn delete(managed: *mut Managed) {
    // SAFETY: `managed` is the first field of an `Export` that `capsule` leaked, and the consumer calls this once.
    drop(unsafe { Box::from_raw(managed.cast::<Export<Managed>>()) });
}

/// As [`delete`].
unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete`.
    drop(unsafe { Box::from_raw(managed.cast::<Export<ManagedVersioned>>()) });
}

/// Frees what no one consumed: a consumer renames the capsule.
unsafe extern "C" fn drop_unversioned(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with the capsule it destroys.
    if let Some(managed) = unsafe { unconsumed(capsule, UNVERSIONED) } {
        // SAFETY: no one consumed it, so no one else calls the deleter.
        unsafe { delete(managed.cast().as_ptr()) };
    }
}

/// As [`drop_unversioned`].
unsafe extern "C" fn drop_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with the capsule it destroys.
    if let Some(managed) = unsafe { unconsumed(capsule, VERSIONED) } {
        // SAFETY: no one consumed it, so no one else calls the deleter.
        unsafe { delete_versioned(managed.cast().as_ptr()) };
    }
}

/// The capsule's pointer, if it still has the name that it was made with.
///
/// # Safety
/// `capsule` is a capsule, and this thread holds the interpreter's lock.
unsafe fn unconsumed(capsule: *mut ffi::PyObject, name: &CStr) -> Option<NonNull<c_void>> {
    // SAFETY: guaranteed by the caller; the name is a C string.
    if unsafe { ffi::PyCapsule_IsValid(capsule, name.as_ptr()) } == 0 {
        return None;
    }
    // SAFETY: it is valid under this name.
    NonNull::new(unsafe { ffi::PyCapsule_GetPointer(capsule, name.as_ptr()) })
}

/// The handles of the legacy default stream and of the default stream of each thread, in all devices.
const DEFAULT_STREAMS: [u64; 2] = [1, 2];

/// A stream of a framework: its object, or 1 or 2 for the default streams, as the array API standard has them.
///
/// A bare handle is refused: the driver reads the memory that it points to, whatever is there.
pub(crate) fn stream_of(stream: &Bound<'_, PyAny>, device: u32) -> PyResult<StreamHandle> {
    let handle = match stream.extract::<u64>() {
        Ok(number) if stream.is_instance_of::<PyBool>() || !DEFAULT_STREAMS.contains(&number) => {
            return Err(PyValueError::new_err(format!(
                "expected a stream's object, such as torch.cuda.current_stream(), or 1 or 2 for a default stream; found {stream}"
            )));
        }
        Ok(number) => number,
        Err(_) => {
            check_device(stream, device)?;
            handle_of(stream)?
        }
    };
    // SAFETY: it is a default stream's, or that of an object whose class promises a live stream; the caller holds the
    // object during the call.
    Ok(unsafe { StreamHandle::from_raw(handle) })
}

/// Refuses a stream of another device.
fn check_device(stream: &Bound<'_, PyAny>, device: u32) -> PyResult<()> {
    match stream.getattr_opt(intern!(stream.py(), "device_index"))? {
        Some(index) if index.extract::<u32>().ok() != Some(device) => Err(PyValueError::new_err(
            format!("expected a stream of cuda:{device}, found one of cuda:{index}"),
        )),
        _ => Ok(()),
    }
}

/// The handle of a stream's object: by the protocol of CUDA's Python packages, or as PyTorch and CuPy have it.
fn handle_of(stream: &Bound<'_, PyAny>) -> PyResult<u64> {
    let py = stream.py();
    if let Some(protocol) = stream.getattr_opt(intern!(py, "__cuda_stream__"))? {
        let (version, handle): (u32, u64) = protocol.call0()?.extract()?;
        if version == 0 {
            return Ok(handle);
        }
    }
    if let Some(handle) = stream.getattr_opt(intern!(py, "cuda_stream"))? {
        return handle.extract();
    }
    Err(PyTypeError::new_err(format!(
        "expected a stream's object, with `cuda_stream` or `__cuda_stream__`, or 1 or 2; found {}",
        stream.get_type()
    )))
}
