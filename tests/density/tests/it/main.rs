//! Tests of the benchmark as a whole: generator, workers, limits, and the program itself.

mod common;
mod generator;
mod limits;
mod smoke;
mod workers;
