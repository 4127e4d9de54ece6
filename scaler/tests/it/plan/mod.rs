//! Tests of `tetris-scaler plan`.

mod figures;
mod gpus;
mod input;
mod profiled;
mod reasons;
mod run;
