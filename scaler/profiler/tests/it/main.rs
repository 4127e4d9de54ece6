//! The profiler, with servers that the examples of this package simulate.

mod early_stop;
mod profiling;
