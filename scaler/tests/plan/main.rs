//! `tetris-scaler plan` from files.

mod figures;
mod input;
mod profiled;
mod reasons;
mod run;
