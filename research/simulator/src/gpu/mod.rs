//! The second engine: requests of many functions on GPUs.
//!
//! Models stay in the host's memory, and requests are bound to GPUs by `tetris_scaler_dispatch::gpu`
//! itself. GPUs execute one request at a time and load models over links that neighbors share;
//! evictions follow from the scheduler's record of device memory. [`gpu_faas`] repeats the
//! evaluation of GPU-FaaS, [`torpor`] that of Torpor, [`tidal`] the one of TIDAL with traces.

mod engine;
mod idle;
mod links;
mod record;

pub mod gpu_faas;
pub mod tidal;
pub mod torpor;

pub use record::{GpuRecords, Record};
