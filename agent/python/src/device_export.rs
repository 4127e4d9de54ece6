//! A tensor in device memory as a capsule of DLPack.

use std::any::Any;
use std::sync::Arc;

use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use tetris_agent::Region;
use tetris_agent::device::{DeviceTensor, Location};
use tetris_store_layout::Dtype;

use crate::dlpack::{self, CPU, CUDA, IS_COPIED, READ_ONLY, Request, Source};
use crate::errors;

/// The address of a tensor in host memory that has no bytes: aligned, and never read.
const NOWHERE: usize = 64;

/// `DLDevice` of a tensor.
pub(crate) fn device_of(tensor: &DeviceTensor) -> PyResult<(i32, i32)> {
    match tensor.location() {
        Location::Simulated => Ok(CPU),
        Location::Cuda(number) => {
            let number = i32::try_from(number);
            let number = number.map_err(|_| PyBufferError::new_err("no such device"))?;
            Ok((CUDA, number))
        }
    }
}

/// A capsule over a tensor that has arrived: over its memory, or over a copy in host memory.
pub(crate) fn export<'py>(
    py: Python<'py>,
    tensor: &DeviceTensor,
    request: &Request<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    export_as(py, tensor, tensor.dtype(), request)
}

/// A capsule like [`export`], with elements of another type and the same size.
pub(crate) fn export_as<'py>(
    py: Python<'py>,
    tensor: &DeviceTensor,
    dtype: Dtype,
    request: &Request<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let here = device_of(tensor)?;
    let wanted = request.device.unwrap_or(here);
    check_stream(request, wanted)?;
    let copied = match (wanted == here, request.copy) {
        (true, None | Some(false)) => false,
        (true, Some(true)) if here == CPU => true,
        (false, None | Some(true)) if wanted == CPU => true,
        (true, Some(true)) => {
            let text = "a copy on the device is the consumer's to make, such as by torch.Tensor.clone; expected copy=None or False";
            return Err(PyBufferError::new_err(text));
        }
        (false, _) => {
            return Err(PyBufferError::new_err(format!(
                "the tensor is on device {here:?}, and can be copied to {CPU:?}; found dl_device {wanted:?} with copy={:?}",
                request.copy
            )));
        }
    };
    let region = if copied {
        Some(host_copy(py, tensor)?)
    } else {
        None
    };
    let memory: Arc<dyn Any + Send + Sync> = match &region {
        Some(region) => Arc::<Region>::clone(region),
        None => Arc::new(tensor.clone()),
    };
    let source = Source {
        address: match &region {
            Some(region) => region.address().get(),
            None => address(tensor, here),
        },
        dtype,
        shape: tensor.shape(),
        device: wanted,
        memory: Some(memory),
    };
    let flags = if copied { IS_COPIED } else { READ_ONLY };
    dlpack::capsule_of(py, &source, request.max_version, flags)
}

/// A capsule over a tensor's elements or bytes, which may still be on their way, for a consumer that waits for them
/// before it uses them.
pub(crate) fn unwaited<'py>(
    py: Python<'py>,
    tensor: &DeviceTensor,
    as_bytes: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let device = device_of(tensor)?;
    let bytes = [tensor.bytes()];
    let (dtype, shape): (_, &[u64]) = if as_bytes {
        (Dtype::U8, &bytes)
    } else {
        (tensor.dtype(), tensor.shape())
    };
    let source = Source {
        address: address(tensor, device),
        dtype,
        shape,
        device,
        memory: Some(Arc::new(tensor.clone())),
    };
    dlpack::capsule_of(py, &source, None, READ_ONLY)
}

/// Host memory has no streams. On a device any will do: the bytes are there for all of them.
fn check_stream(request: &Request<'_>, device: (i32, i32)) -> PyResult<()> {
    let Some(stream) = request.stream.as_ref().filter(|stream| !stream.is_none()) else {
        return Ok(());
    };
    if device == CPU {
        let text = "stream must be None for a tensor in host memory";
        return Err(PyBufferError::new_err(text));
    }
    // 0 may mean the legacy default stream or one for each thread, so the array API standard forbids it.
    match stream.extract::<i64>() {
        Ok(number) if number == -1 || number > 0 => Ok(()),
        _ => Err(PyBufferError::new_err(format!(
            "expected a stream as the array API standard has them for CUDA: None, -1, 1, 2 or a handle; found {stream}"
        ))),
    }
}

/// The address of the first byte, for `DLTensor`.
pub(crate) fn address(tensor: &DeviceTensor, device: (i32, i32)) -> usize {
    if tensor.bytes() == 0 && device == CPU {
        return NOWHERE;
    }
    tensor.address() as usize
}

/// The bytes in private host memory.
pub(crate) fn host_copy(py: Python<'_>, tensor: &DeviceTensor) -> PyResult<Arc<Region>> {
    dlpack::filled(tensor.bytes() as usize, |target| {
        py.detach(|| tensor.read(target)).map_err(errors::device)
    })
}
