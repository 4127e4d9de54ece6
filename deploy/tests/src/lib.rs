//! Common parts of the tests of `deploy/`: manifests as kustomize renders them, and a cluster to try them on.

pub mod chart;
pub mod cluster;
pub mod files;
pub mod helm;
pub mod kustomize;
pub mod model;
pub mod objects;
pub mod skipped;
