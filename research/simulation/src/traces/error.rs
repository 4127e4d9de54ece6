//! Errors of files of traces.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use super::Window;

/// The reason a file of a trace cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("cannot read {}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The first line is the header of no supported format.
    #[error(
        "cannot read {}: expected the header of Azure Functions 2019 (`HashOwner,HashApp,HashFunction,Trigger,1,2,...,1440`), \
         of Azure Functions 2021 (`app,func,end_timestamp,duration`) or of BurstGPT (`Timestamp,Model,Request tokens,\
         Response tokens,Total tokens,Log Type`, with or without `Session ID` and `Elapsed time`), found `{found}`",
        path.display()
    )]
    Header {
        /// Path of the file.
        path: PathBuf,
        /// Start of the first line.
        found: String,
    },
    /// A row breaks the schema.
    #[error(
        "cannot read {}, line {line}: expected {expected}, found {found}; repair or remove the line",
        path.display()
    )]
    Row {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Description of a correct value.
        expected: String,
        /// Value in the file.
        found: String,
    },
    /// The file has more of something than a run takes.
    #[error(
        "cannot read {}, line {line}: expected at most {most} {of}, found more; use a shorter --trace-minutes or a part of the file",
        path.display()
    )]
    Limit {
        /// Path of the file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: u64,
        /// Limited quantity.
        of: &'static str,
        /// Limit.
        most: u64,
    },
    /// The window goes beyond the file.
    #[error(
        "cannot take {window} of {}: expected a part of its minutes {first} to {end}; change --trace-start-minutes or --trace-minutes",
        path.display()
    )]
    Window {
        /// Path of the file.
        path: PathBuf,
        /// Window of the run.
        window: Window,
        /// First minute of the file with requests.
        first: u64,
        /// Minute after the file's last.
        end: u64,
    },
    /// The window has too few functions with enough requests.
    #[error(
        "cannot take {window} of {}: expected {expected} or more functions with at least {min_requests} requests, found {found}; \
         change the window, or lower --trace-functions or --trace-min-requests",
        path.display()
    )]
    Functions {
        /// Path of the file.
        path: PathBuf,
        /// Window of the run.
        window: Window,
        /// Number of functions that the run takes.
        expected: usize,
        /// Number of requests that a function needs.
        min_requests: u64,
        /// Number of functions with enough requests.
        found: usize,
    },
}
