//! `tetris-scaler plan` from files.

mod figures;
mod input;
mod reasons;
mod run;
