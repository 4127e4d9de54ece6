//! Reading, hashing and publishing objects over all cores.
//!
//! The unit of work is a segment of 4 MiB: a worker reads it piece by piece into a buffer that stays
//! in its cache, hashes the piece and writes it to the staged object. Whether an object is in the
//! store already is known only when it has been hashed, so a worker guesses: as the last object
//! was. After a wrong guess either the staged pages are dropped, or the object is read again.
//!
//! Objects are taken in random order, so that agents that load similar models at once work on
//! different tensors (Tetris, section 4).

mod hashed;
mod inputs;
mod run;
mod slot;
mod tally;
mod worker;

pub use hashed::HashedObject;
pub use inputs::Pipeline;
pub use run::PipelineRun;
