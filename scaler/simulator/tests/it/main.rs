//! The simulator: traces, policies and the command `scaler-simulate`.

mod against_dts;
mod cli;
mod dispatch;
mod policies;
mod simulation;
mod sweep;
