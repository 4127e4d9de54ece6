//! Tests of `tetris-scaler plan`.

mod figures;
mod input;
mod profiled;
mod reasons;
mod run;
