//! Weights of a model in device memory.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::compute::{Matrix, Workspace};
use tetris_gpu_client::Acquired;
use tetris_store_layout::{Access, ObjectId, Store};

use super::ModelMatrix;
use crate::BenchError;
use crate::backend::Backend;
use crate::model::BenchModel;
use crate::timeout::LONG;

/// The weights of a model on the device.
#[derive(Debug)]
pub(crate) enum Weights<D: Backend> {
    /// Shared through the mirror.
    Shared(Acquired<D>),
    /// A private copy.
    Own {
        space: Workspace<D>,
        offsets: BTreeMap<ObjectId, u64>,
    },
}

impl<D: Backend> Weights<D> {
    /// Copies a model from the store into private device memory.
    pub fn copy(device: Arc<D>, store: &Store, model: &BenchModel) -> Result<Self, BenchError> {
        let rooms = model.tensors.iter().map(|tensor| tensor.object.len);
        let mut space = Workspace::new(device, rooms.map(Workspace::<D>::room_for).sum())?;
        let mut offsets = BTreeMap::new();
        for tensor in &model.tensors {
            let bytes = store.map(&tensor.object, Access::ReadOnly)?;
            let bytes = bytes.ok_or(BenchError::NoObject(tensor.object.id))?;
            offsets.insert(tensor.object.id, space.put(Arc::new(bytes))?);
        }
        Ok(Self::Own { space, offsets })
    }

    /// Waits for the arrival of a matrix.
    pub fn wait(&self, matrix: &ModelMatrix) -> Result<(), BenchError> {
        match self {
            Self::Shared(held) => Ok(held.wait(&matrix.object.id, LONG)?),
            Self::Own { .. } => Ok(()),
        }
    }

    /// Waits for the arrival of the whole model.
    pub fn wait_all(&self) -> Result<(), BenchError> {
        match self {
            Self::Shared(held) => Ok(held.wait_all(LONG)?),
            Self::Own { .. } => Ok(()),
        }
    }

    /// Releases the weights, and waits for the server's confirmation.
    pub fn release(self) -> Result<(), BenchError> {
        match self {
            Self::Shared(held) => Ok(held.release()?),
            Self::Own { .. } => Ok(()),
        }
    }

    /// Address of a matrix, also before its arrival.
    pub fn matrix(&self, matrix: &ModelMatrix) -> Result<Matrix<'_, D::Mapping>, BenchError> {
        let id = matrix.object.id;
        let (rows, columns, element) = (matrix.rows, matrix.columns, matrix.element);
        match self {
            Self::Shared(held) => {
                let (mapping, offset) = held.mapping(&id)?;
                Ok(Matrix::try_new(mapping, offset, rows, columns, element)?)
            }
            Self::Own { space, offsets } => {
                let offset = offsets.get(&id).ok_or(BenchError::NoObject(id))?;
                Ok(space.matrix(*offset, rows, columns, element)?)
            }
        }
    }
}
