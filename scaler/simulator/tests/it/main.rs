//! The simulator: traces, policies and the command `scaler-simulate`.

mod cli;
mod policies;
mod simulation;
