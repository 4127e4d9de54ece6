//! Common parts of the tests of `deploy/`: manifests as kustomize renders them, and a cluster to try them on.

pub mod cluster;
pub mod files;
pub mod kustomize;
pub mod model;
pub mod objects;
pub mod skipped;
