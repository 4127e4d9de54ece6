//! A pass: a vector times each of a model's matrices, in order.

use std::sync::Arc;

use crate::compute::{Product, Vector, Workspace};
use tetris_store_layout::{Access, Store};

use super::{Expected, ModelMatrix, Rows, Weights, numbers};
use crate::BenchError;
use crate::backend::Backend;

/// State of repeated passes: the kernels, a stream, an input, and an output for each matrix.
#[derive(Debug)]
pub(crate) struct Pass<D: Backend> {
    device: Arc<D>,
    kernels: D::Kernels,
    stream: D::Stream,
    space: Workspace<D>,
    matrices: Vec<ModelMatrix>,
    numbers: Vec<f32>,
    all: Vector<D::Mapping>,
    /// Prefixes of the input, one for each matrix, with the matrix's number of columns.
    inputs: Vec<Vector<D::Mapping>>,
    outputs: Vec<Vector<D::Mapping>>,
}

impl<D: Backend> Pass<D> {
    pub fn new(device: Arc<D>, matrices: Vec<ModelMatrix>) -> Result<Self, BenchError> {
        let widest = matrices
            .iter()
            .map(|matrix| matrix.columns)
            .max()
            .unwrap_or(1);
        let sides = matrices.iter().map(|matrix| matrix.rows).chain([widest]);
        let room = sides.map(|side| Workspace::<D>::room_for(u64::from(side) * 4));
        let mut space = Workspace::new(Arc::clone(&device), room.sum())?;
        let numbers = numbers(0, widest as usize);
        let all = space.vector_of(&numbers)?;
        let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
        for matrix in &matrices {
            inputs.push(all.first(matrix.columns)?);
            outputs.push(space.vector(matrix.rows)?);
        }
        Ok(Self {
            kernels: device.kernels()?,
            stream: device.stream()?,
            device,
            space,
            matrices,
            numbers,
            all,
            inputs,
            outputs,
        })
    }

    /// Changes the input, so that an output of an earlier pass cannot pass as one of this pass.
    pub fn renew(&mut self, seed: u64) -> Result<(), BenchError> {
        self.numbers = numbers(seed, self.numbers.len());
        Ok(self.space.set(&self.all, &self.numbers)?)
    }

    /// Computes the product with the first matrix, after its arrival.
    pub fn first(&mut self, weights: &Weights<D>) -> Result<(), BenchError> {
        self.part(weights, 0, 1)
    }

    /// Computes the products with the other matrices, each after its matrix's arrival.
    pub fn rest(&mut self, weights: &Weights<D>) -> Result<(), BenchError> {
        self.part(weights, 1, usize::MAX)
    }

    fn part(&mut self, weights: &Weights<D>, skip: usize, take: usize) -> Result<(), BenchError> {
        let vectors = self.inputs.iter().zip(&self.outputs);
        let all = self.matrices.iter().zip(vectors).skip(skip).take(take);
        let (mut matrices, mut products) = (Vec::new(), Vec::new());
        for (matrix, (input, output)) in all {
            products.push(Product::try_new(weights.matrix(matrix)?, input, output)?);
            matrices.push(matrix);
        }
        let mut ready = |index: usize| match matrices.get(index) {
            Some(matrix) => weights.wait(matrix),
            None => Ok(()),
        };
        self.device
            .multiply(&self.kernels, &mut self.stream, &products, &mut ready)
    }

    /// Compares the first and the last element of each output with the results from the store's
    /// bytes.
    pub fn check(&self, store: &Store) -> Result<(), BenchError> {
        let input: Vec<_> = self.numbers.iter().copied().map(Expected::from).collect();
        for (matrix, output) in self.matrices.iter().zip(&self.outputs) {
            let bytes = store.map(&matrix.object, Access::ReadOnly)?;
            let bytes = bytes.ok_or(BenchError::NoObject(matrix.object.id))?;
            let rows = Rows {
                bytes: &bytes,
                columns: matrix.columns,
                element: matrix.element,
            };
            let output = self.space.read(output)?;
            for row in [0, matrix.rows - 1] {
                let expected = rows.times(row, &input);
                let value = output.get(row as usize).copied();
                check(&matrix.name, row, expected, value)?;
            }
        }
        Ok(())
    }
}

/// Returns an error if an element of a product is wrong.
pub(crate) fn check(
    name: &str,
    row: u32,
    expected: Option<Expected>,
    found: Option<f32>,
) -> Result<(), BenchError> {
    match (expected, found) {
        (Some(expected), Some(found)) if expected.allows(found) => Ok(()),
        _ => Err(BenchError::Bug(format!(
            "expected {expected:?} as row {row} of a product with {name}, found {found:?}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use tetris_gpu_device::host::HostDevice;
    use tetris_store_layout::CreateOptions;

    use super::*;
    use crate::model::make;
    use crate::products::matrices;

    /// Creates a store with three matrices, a pass over them, and the weights.
    fn prepared(root: &std::path::Path) -> (Store, Pass<HostDevice>, Weights<HostDevice>) {
        let store = Store::create(root, &CreateOptions::default()).unwrap();
        let shape = |name: &str, rows, columns| (name.to_owned(), vec![rows, columns]);
        let shapes = [shape("a", 24, 40), shape("b", 8, 64), shape("c", 16, 16)];
        let model = make(&store, &shapes, &|_| {}).unwrap();
        let device = Arc::new(HostDevice::new(64 << 20));
        let pass = Pass::new(Arc::clone(&device), matrices(&model)).unwrap();
        let weights = Weights::copy(device, &store, &model).unwrap();
        (store, pass, weights)
    }

    #[test]
    fn a_pass_that_was_made_is_right_and_only_that_one() {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let (store, mut pass, weights) = prepared(&folder.path().join("store"));
        pass.renew(1).unwrap();
        pass.first(&weights).unwrap();
        pass.rest(&weights).unwrap();
        pass.check(&store).unwrap();
        // With another input the old outputs are wrong, until all are computed again.
        pass.renew(2).unwrap();
        assert!(pass.check(&store).is_err());
        pass.first(&weights).unwrap();
        let error = pass.check(&store).unwrap_err().to_string();
        assert!(error.contains("a product with b"), "{error}");
        pass.rest(&weights).unwrap();
        pass.check(&store).unwrap();
    }
}
