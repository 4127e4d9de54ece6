//! Low-rank adapters: `W x + B (A x)`.

use std::sync::Arc;

use crate::compute::{Element, Product, Vector, Workspace};

use crate::BenchError;
use crate::backend::Backend;
use crate::products::{Expected, ModelMatrix, Rows, Weights, numbers};

/// A pair of BF16 matrices, on the device and in host memory.
#[derive(Debug)]
pub(super) struct Adapter {
    down: Part,
    up: Part,
}

/// One matrix of the pair.
#[derive(Debug)]
struct Part {
    bytes: Arc<Vec<u8>>,
    offset: u64,
    rows: u32,
    columns: u32,
}

/// The private vectors of a function.
#[derive(Debug)]
pub(super) struct Vectors<M> {
    pub input: Vector<M>,
    pub inner: Option<Vector<M>>,
    pub output: Vector<M>,
}

/// Length of an adapter, in bytes.
pub(super) fn adapter_bytes(matrix: &ModelMatrix, rank: u32) -> u64 {
    (u64::from(matrix.rows) + u64::from(matrix.columns)) * u64::from(rank) * 2
}

/// Length of an adapter in a workspace, in bytes.
pub(super) fn adapter_room<D: Backend>(matrix: &ModelMatrix, rank: u32) -> u64 {
    let sides = [matrix.rows, matrix.columns];
    let room = |side: u32| Workspace::<D>::room_for(u64::from(side) * u64::from(rank) * 2);
    sides.map(room).iter().sum()
}

impl Part {
    fn new<D: Backend>(
        space: &mut Workspace<D>,
        rows: u32,
        columns: u32,
        seed: u64,
    ) -> Result<Self, BenchError> {
        let count = rows as usize * columns as usize;
        let upper = |x: f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
        let bytes = numbers(seed, count).into_iter().flat_map(upper);
        let bytes = Arc::new(bytes.collect::<Vec<u8>>());
        let offset = space.put(Arc::<Vec<u8>>::clone(&bytes))?;
        Ok(Self {
            bytes,
            offset,
            rows,
            columns,
        })
    }

    fn product<'a, D: Backend>(
        &self,
        space: &'a Workspace<D>,
        input: &'a Vector<D::Mapping>,
        output: &'a Vector<D::Mapping>,
    ) -> Result<Product<'a, D::Mapping>, BenchError> {
        let matrix = space.matrix(self.offset, self.rows, self.columns, Element::Bf16)?;
        Ok(Product::try_new(matrix, input, output)?)
    }

    fn rows(&self) -> Rows<'_> {
        Rows {
            bytes: &self.bytes,
            columns: self.columns,
            element: Element::Bf16,
        }
    }
}

impl Adapter {
    /// Creates an adapter for this matrix in the workspace.
    pub fn new<D: Backend>(
        space: &mut Workspace<D>,
        matrix: &ModelMatrix,
        rank: u32,
        seed: u64,
    ) -> Result<Self, BenchError> {
        Ok(Self {
            down: Part::new(space, rank, matrix.columns, 2 * seed)?,
            up: Part::new(space, matrix.rows, rank, 2 * seed + 1)?,
        })
    }

    /// Contribution of the adapter to each of these rows; `None` for a row out of range.
    pub fn adds(&self, rows: &[u32], input: &[Expected]) -> Vec<Option<Expected>> {
        let inner = (0..self.down.rows).filter_map(|row| self.down.rows().times(row, input));
        let inner: Vec<_> = inner.collect();
        let times = |row: &u32| self.up.rows().times(*row, &inner);
        rows.iter().map(times).collect()
    }
}

/// Products of a matrix and of its adapter, if it has one.
pub(super) fn products<'a, D: Backend>(
    weights: &'a Weights<D>,
    space: &'a Workspace<D>,
    matrix: &ModelMatrix,
    adapter: Option<&Adapter>,
    vectors: &'a Vectors<D::Mapping>,
) -> Result<Vec<Product<'a, D::Mapping>>, BenchError> {
    let (input, output) = (&vectors.input, &vectors.output);
    let mut products = vec![Product::try_new(weights.matrix(matrix)?, input, output)?];
    if let (Some(adapter), Some(inner)) = (adapter, &vectors.inner) {
        products.push(adapter.down.product(space, input, inner)?);
        products.push(adapter.up.product(space, inner, output)?.added());
    }
    Ok(products)
}
