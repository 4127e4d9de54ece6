//! The process of a function.

use std::path::PathBuf;
use std::sync::Arc;

use crate::compute::{Element, Product, Vector, Workspace};
use serde::{Deserialize, Serialize};
use tetris_store_layout::{Access, Store};

use super::adapter::{Adapter, Vectors, adapter_bytes, adapter_room, products};
use super::turns::attach;
use crate::BenchError;
use crate::backend::{Backend, DeviceChoice};
use crate::model::BenchModel;
use crate::process::Parent;
use crate::products::{Expected, ModelMatrix, Rows, Weights, check, matrices, numbers};

/// Memory of a function's base.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Base {
    /// No base, and no products.
    Nothing,
    /// The mirror whose server listens at this socket.
    Mirror(PathBuf),
    /// Private memory.
    Own,
}

/// Parameters of a function's process.
#[derive(Debug, Serialize, Deserialize)]
pub struct FunctionJob {
    /// The store.
    pub store: PathBuf,
    /// Memory of the base.
    pub base: Base,
    /// The base.
    pub model: BenchModel,
    /// Names of the matrices for the products.
    pub used: Vec<String>,
    /// Rank of their adapters; 0: no adapters.
    pub rank: u32,
    /// Seed of the adapters and the input.
    pub seed: u64,
}

/// Memory of a function.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct FunctionReport {
    /// Length of its adapters, in bytes.
    pub adapter_bytes: u64,
    /// Private device memory for adapters, input and output in bytes, in whole granules.
    pub private_bytes: u64,
}

/// A function during its computation.
struct Function<'a, D: Backend> {
    job: &'a FunctionJob,
    device: Arc<D>,
    kernels: D::Kernels,
    space: Workspace<D>,
    adapters: Vec<(ModelMatrix, Option<Adapter>)>,
    numbers: Vec<f32>,
    /// The widest input, the longest output, and the vector between the two matrices of an adapter.
    input: Vector<D::Mapping>,
    output: Vector<D::Mapping>,
    inner: Option<Vector<D::Mapping>>,
}

/// Computes, and holds its memory until the parent ends this process.
pub fn run<D: Backend>(
    choice: DeviceChoice,
    job: &FunctionJob,
    parent: &mut Parent,
) -> Result<(), BenchError> {
    let device = Arc::new(D::open(choice)?);
    let store = Store::open(&job.store)?;
    let used = matrices(&job.model).into_iter();
    let used: Vec<_> = used
        .filter(|matrix| job.used.contains(&matrix.name))
        .collect();
    let weights = match &job.base {
        Base::Nothing => None,
        Base::Mirror(socket) => Some(Weights::Shared(attach(&device, socket, &job.model)?.0)),
        Base::Own => Some(Weights::copy(Arc::clone(&device), &store, &job.model)?),
    };
    let mut function = Function::new(job, device, &used)?;
    match &weights {
        None => function.warm_up()?,
        Some(weights) => function.compute(weights, &store)?,
    }
    let private_bytes = function.space.bytes();
    // Without weights the process holds only its context and the kernels.
    let (whole, kernels) = match &weights {
        Some(_) => (Some(function), None),
        None => (None, Some(function.into_kernels())),
    };
    parent.tell(&FunctionReport {
        adapter_bytes: used.iter().map(|byte| adapter_bytes(byte, job.rank)).sum(),
        private_bytes,
    })?;
    while parent.wait() {}
    drop((whole, kernels, weights));
    Ok(())
}

/// Length of the vectors of these matrices and of their adapters in a workspace, in bytes.
fn room<D: Backend>(used: &[ModelMatrix], rank: u32, widest: u32, longest: u32) -> u64 {
    let side = |side: u32| Workspace::<D>::room_for(u64::from(side) * 4);
    let adapters = used.iter().map(|matrix| adapter_room::<D>(matrix, rank));
    [widest, longest, rank].map(side).iter().sum::<u64>() + adapters.sum::<u64>()
}

impl<'a, D: Backend> Function<'a, D> {
    fn new(job: &'a FunctionJob, device: Arc<D>, used: &[ModelMatrix]) -> Result<Self, BenchError> {
        let rank = job.rank;
        let widest = used.iter().map(|matrix| matrix.columns).max().unwrap_or(1);
        let longest = used.iter().map(|matrix| matrix.rows).max().unwrap_or(1);
        let room = room::<D>(used, rank, widest, longest);
        let mut space = Workspace::new(Arc::clone(&device), room)?;
        let numbers = numbers(job.seed, widest as usize);
        let mut adapters = Vec::new();
        for (number, matrix) in used.iter().enumerate() {
            let seed = (job.seed << 32) + number as u64;
            let adapter = (rank > 0).then(|| Adapter::new(&mut space, matrix, rank, seed));
            adapters.push((matrix.clone(), adapter.transpose()?));
        }
        Ok(Self {
            job,
            kernels: device.kernels()?,
            device,
            input: space.vector_of(&numbers)?,
            output: space.vector(longest)?,
            inner: (rank > 0).then(|| space.vector(rank)).transpose()?,
            space,
            adapters,
            numbers,
        })
    }

    /// Drops everything but the kernels.
    fn into_kernels(self) -> D::Kernels {
        self.kernels
    }

    /// Computes a product without weights, because the driver loads kernels at their first use.
    fn warm_up(&mut self) -> Result<(), BenchError> {
        let mut space = Workspace::new(Arc::clone(&self.device), 1)?;
        let offset = space.put(Arc::new(vec![0; 4]))?;
        let matrix = space.matrix(offset, 1, 1, Element::F32)?;
        let (input, output) = (self.input.first(1)?, self.output.first(1)?);
        let product = Product::try_new(matrix, &input, &output)?;
        let mut stream = self.device.stream()?;
        self.device
            .multiply(&self.kernels, &mut stream, &[product], &mut |_| {
                Ok::<_, BenchError>(())
            })
    }

    /// Multiplies with all matrices and checks the results.
    fn compute(&mut self, weights: &Weights<D>, store: &Store) -> Result<(), BenchError> {
        let mut stream = self.device.stream()?;
        let mut adapted = self.job.rank == 0;
        for (matrix, adapter) in &self.adapters {
            let vectors = Vectors {
                input: self.input.first(matrix.columns)?,
                inner: match &self.inner {
                    Some(inner) => Some(inner.first(self.job.rank)?),
                    None => None,
                },
                output: self.output.first(matrix.rows)?,
            };
            let products = products(weights, &self.space, matrix, adapter.as_ref(), &vectors)?;
            let mut ready = |_| weights.wait(matrix);
            self.device
                .multiply(&self.kernels, &mut stream, &products, &mut ready)?;
            let output = self.space.read(&vectors.output)?;
            adapted |= self.check(store, matrix, adapter.as_ref(), &output)?;
        }
        if adapted {
            return Ok(());
        }
        Err(BenchError::Bug(
            "expected adapters to make a difference, found none".to_owned(),
        ))
    }

    /// Compares some elements. Returns true if the adapter changed at least one of them.
    fn check(
        &self,
        store: &Store,
        matrix: &ModelMatrix,
        adapter: Option<&Adapter>,
        found: &[f32],
    ) -> Result<bool, BenchError> {
        let rows = [0, matrix.rows / 2, matrix.rows - 1];
        let input = self.numbers.iter().copied().map(Expected::from);
        let input: Vec<_> = input.take(matrix.columns as usize).collect();
        let base = base(store, matrix, &rows, &input)?;
        let added = match adapter {
            Some(adapter) => adapter.adds(&rows, &input),
            None => vec![Some(Expected::from(0.0)); rows.len()],
        };
        let mut differs = false;
        for (row, (base, added)) in rows.into_iter().zip(base.into_iter().zip(added)) {
            let value = found.get(row as usize).copied();
            let expected = base.zip(added).map(|(base, added)| base.plus(added));
            check(&matrix.name, row, expected, value)?;
            differs |= base
                .zip(value)
                .is_some_and(|(base, value)| !base.allows(value));
        }
        Ok(differs)
    }
}

/// Expected elements of these rows, from a matrix in the store.
fn base(
    store: &Store,
    matrix: &ModelMatrix,
    rows: &[u32],
    input: &[Expected],
) -> Result<Vec<Option<Expected>>, BenchError> {
    let bytes = store.map(&matrix.object, Access::ReadOnly)?;
    let bytes = bytes.ok_or(BenchError::NoObject(matrix.object.id))?;
    let weights = Rows {
        bytes: &bytes,
        columns: matrix.columns,
        element: matrix.element,
    };
    Ok(rows.iter().map(|row| weights.times(*row, input)).collect())
}
