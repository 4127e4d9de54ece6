//! Tests of the comparison of reclaim policies.

mod cli;
mod default_policy;
mod orders;
mod real_traces;
