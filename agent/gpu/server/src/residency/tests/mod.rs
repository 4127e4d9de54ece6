//! Tests of admission and eviction: by hand, and against a plain reference.

mod property;
mod scenarios;
