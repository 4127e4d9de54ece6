//! Decisions, placements and selections, against rules, enumerations and other solvers.

mod decision;
mod inventory;
mod load_peak;
mod placement;
mod scale_in;
mod selection;
