//! Products on the simulated device.

use std::sync::Arc;

use super::{Compute, ComputeError, Element, Product};
use tetris_gpu_device::host::{HostDevice, HostMapping, HostStream};
use tetris_gpu_device::{DeviceMemory, HostSlice, MemoryError};

/// Number of partial sums, the same as the number of lanes of a warp.
const LANES: usize = 32;
/// Number of elements of a row that one read covers.
const ELEMENTS_AT_A_TIME: usize = 16 << 10;

/// Empty: the code is already compiled.
#[derive(Debug, Clone, Copy)]
pub struct HostKernels;

impl Compute for HostDevice {
    type Kernels = HostKernels;

    fn kernels(&self) -> Result<HostKernels, ComputeError> {
        Ok(HostKernels)
    }

    fn multiply<E: From<ComputeError>>(
        &self,
        _kernels: &HostKernels,
        stream: &mut HostStream,
        products: &[Product<'_, HostMapping>],
        ready: &mut dyn FnMut(usize) -> Result<(), E>,
    ) -> Result<(), E> {
        for (index, product) in products.iter().enumerate() {
            ready(index)?;
            one(self, stream, product).map_err(ComputeError::from)?;
        }
        Ok(())
    }
}

fn one(
    device: &HostDevice,
    stream: &mut HostStream,
    product: &Product<'_, HostMapping>,
) -> Result<(), MemoryError> {
    // Earlier work on the stream comes first.
    device.synchronize(stream)?;
    let input = read_f32(device, product.input)?;
    let mut output = if product.accumulate {
        read_f32(device, product.output)?
    } else {
        vec![0.0; product.output.len as usize]
    };
    let mut buffer = Vec::new();
    for (row, sum) in output.iter_mut().enumerate() {
        *sum += dot(device, product, row as u64, &input, &mut buffer)?;
    }
    let bytes: Vec<u8> = output.iter().flat_map(|x| x.to_le_bytes()).collect();
    let from = HostSlice::whole(Arc::new(bytes));
    device.copy_in(stream, &product.output.mapping, product.output.offset, from)?;
    device.synchronize(stream)
}

/// Multiplies a row with the input, in parts through `buffer`.
fn dot(
    device: &HostDevice,
    product: &Product<'_, HostMapping>,
    row: u64,
    input: &[f32],
    buffer: &mut Vec<u8>,
) -> Result<f32, MemoryError> {
    let matrix = &product.matrix;
    let element_bytes = matrix.element.bytes();
    let mut offset = matrix.offset + row * u64::from(matrix.columns) * element_bytes;
    let mut sums = [0.0; LANES];
    for part in input.chunks(ELEMENTS_AT_A_TIME) {
        let bytes = part.len() as u64 * element_bytes;
        buffer.resize(bytes as usize, 0);
        device.read_back(matrix.mapping, offset, buffer)?;
        match matrix.element {
            Element::F32 => add::<4>(&mut sums, buffer, part, f32::from_le_bytes),
            Element::Bf16 => add::<2>(&mut sums, buffer, part, |bytes| {
                f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
            }),
        }
        offset += bytes;
    }
    Ok(sums.iter().sum())
}

/// Adds the products of weights and inputs to the partial sums, each to its lane's sum.
fn add<const BYTES: usize>(
    sums: &mut [f32; LANES],
    weights: &[u8],
    input: &[f32],
    value: impl Fn([u8; BYTES]) -> f32,
) {
    let (weights, _) = weights.as_chunks::<BYTES>();
    for (weights, input) in weights.chunks(LANES).zip(input.chunks(LANES)) {
        for ((sum, weight), x) in sums.iter_mut().zip(weights).zip(input) {
            *sum += value(*weight) * x;
        }
    }
}

fn read_f32(
    device: &HostDevice,
    vector: &super::Vector<HostMapping>,
) -> Result<Vec<f32>, MemoryError> {
    let mut bytes = vec![0; vector.len as usize * 4];
    device.read_back(&vector.mapping, vector.offset, &mut bytes)?;
    let (elements, _) = bytes.as_chunks::<4>();
    Ok(elements.iter().map(|x| f32::from_le_bytes(*x)).collect())
}
