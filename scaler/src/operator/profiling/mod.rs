//! Measurement of functions that name no profile.
//!
//! # Flow
//! A function without a profile gets an assumed `ModelProfile` at once, with one configuration: what its template requests.
//! A Job in its namespace runs the profiler beside the function's own container: an init container copies it there. The
//! operator reads progress and result from the Job's pod over HTTP, writes the `ModelProfile`, and deletes the Job.
//! [`decide`] compares functions, profiles and Jobs, purely; [`run`] carries out what is due while this replica leads.
//!
//! # Guarantees
//! - A profile is measured once for equal contents: image, command, files of the model, grid, objective and type of machine.
//!   Functions of a namespace share measurements.
//! - A failed Job stays for half an hour, with its message in the function's status; then it is tried again.
//! - A profile that others wrote is never changed.
//! - The pod of a Job has no token, and no rights that the function's pods do not have.

mod assumed;
mod decide;
mod job;
mod records;
mod run;
#[cfg(test)]
mod tests;

pub(super) use run::{MeasurementStates, Surroundings, follow};
