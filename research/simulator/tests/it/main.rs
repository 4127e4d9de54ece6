//! The simulator: traces, policies and the command `scaler-simulate`.

mod against_dts;
mod cli;
mod dispatch;
mod gpu;
mod policies;
mod real_traces;
mod simulation;
mod sweep;
mod terminal;
mod tetris;
