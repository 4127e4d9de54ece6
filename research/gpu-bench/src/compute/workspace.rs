//! Private device memory for vectors and weights.

use std::sync::Arc;

use super::{ComputeError, Element, Matrix, Vector};
use tetris_gpu_device::{
    DeviceMemory, HostBytes, HostSlice, Mapped, MemoryError, Protection, check_inside,
};

/// Alignment of everything in a workspace, in bytes, so that kernels can read 16 bytes at a time.
const ALIGN_BYTES: u64 = 256;

/// Private device memory of this process, allocated from its start to its end and freed as a whole.
#[derive(Debug)]
pub struct Workspace<D: DeviceMemory> {
    device: Arc<D>,
    mapping: Arc<D::Mapping>,
    used: u64,
}

impl<D: DeviceMemory> Workspace<D> {
    /// Allocates at least `bytes` of device memory, rounded up to whole granules.
    pub fn new(device: Arc<D>, bytes: u64) -> Result<Self, MemoryError> {
        let granule_bytes = device.capabilities().granule_bytes;
        let whole = bytes.max(1).checked_next_multiple_of(granule_bytes);
        let bytes = whole.ok_or(MemoryError::Size {
            bytes,
            granule_bytes,
        })?;
        let chunk = device.create(bytes)?;
        let range = device.reserve(bytes)?;
        let mapping = device.map(range, &chunk, Protection::ReadWrite)?;
        Ok(Self {
            device,
            mapping: Arc::new(mapping),
            used: 0,
        })
    }

    /// Number of bytes that an allocation of `bytes` takes from a workspace.
    pub const fn room_for(bytes: u64) -> u64 {
        bytes.next_multiple_of(ALIGN_BYTES)
    }

    /// Length of its device memory, in bytes.
    pub fn bytes(&self) -> u64 {
        self.mapping.bytes()
    }

    /// Allocates a vector with undefined content.
    pub fn vector(&mut self, len: u32) -> Result<Vector<D::Mapping>, ComputeError> {
        let offset = self.take(u64::from(len) * 4)?;
        Vector::try_new(Arc::clone(&self.mapping), offset, len)
    }

    /// Allocates a vector with these elements.
    pub fn vector_of(&mut self, elements: &[f32]) -> Result<Vector<D::Mapping>, ComputeError> {
        let len = u32::try_from(elements.len()).unwrap_or(u32::MAX);
        let vector = self.vector(len)?;
        self.set(&vector, elements)?;
        Ok(vector)
    }

    /// Writes the first elements of a vector of this workspace.
    pub fn set(&self, vector: &Vector<D::Mapping>, elements: &[f32]) -> Result<(), MemoryError> {
        let bytes: Vec<u8> = elements.iter().flat_map(|x| x.to_le_bytes()).collect();
        check_inside(0, bytes.len() as u64, u64::from(vector.len) * 4)?;
        self.write(&vector.mapping, vector.offset, Arc::new(bytes))
    }

    /// Copies `bytes` into the workspace. Returns their offset in bytes.
    pub fn put(&mut self, bytes: Arc<dyn HostBytes>) -> Result<u64, MemoryError> {
        let offset = self.take(bytes.bytes().len() as u64)?;
        self.write(&self.mapping, offset, bytes)?;
        Ok(offset)
    }

    /// Returns the matrix that [`put`](Self::put) stored at `offset`.
    pub fn matrix(
        &self,
        offset: u64,
        rows: u32,
        columns: u32,
        element: Element,
    ) -> Result<Matrix<'_, D::Mapping>, ComputeError> {
        Matrix::try_new(&self.mapping, offset, rows, columns, element)
    }

    /// Copies the elements of a vector out of this workspace.
    pub fn read(&self, vector: &Vector<D::Mapping>) -> Result<Vec<f32>, MemoryError> {
        let mut bytes = vec![0; vector.len as usize * 4];
        self.device
            .read_back(&vector.mapping, vector.offset, &mut bytes)?;
        let (elements, _) = bytes.as_chunks::<4>();
        Ok(elements.iter().map(|x| f32::from_le_bytes(*x)).collect())
    }

    fn take(&mut self, bytes: u64) -> Result<u64, MemoryError> {
        let offset = self.used;
        check_inside(offset, bytes, self.mapping.bytes())?;
        self.used = (offset + bytes).next_multiple_of(ALIGN_BYTES);
        Ok(offset)
    }

    fn write(
        &self,
        mapping: &Arc<D::Mapping>,
        offset: u64,
        bytes: Arc<dyn HostBytes>,
    ) -> Result<(), MemoryError> {
        let mut stream = self.device.stream()?;
        let from = HostSlice::whole(bytes);
        self.device.copy_in(&mut stream, mapping, offset, from)?;
        self.device.synchronize(&mut stream)
    }
}
