//! The Helm chart of `deploy/chart`, made from the manifests that kustomize renders.
//!
//! Objects come from golden files, which the tests of kustomize hold to the overlays. A table names the overlay and the condition of each
//! object (`parts`), and the fields that take values (`substitutions`). Differences between overlays become conditions by comparison
//! (`tree`). So no template has an object or a field besides those of the manifests.

mod matrix;
mod parts;
mod schema;
mod substitutions;
mod tree;
mod yaml;

pub use matrix::{COMBINATIONS, Combination};
pub use parts::templates;
pub use schema::{Setting, schema, settings};

/// Folder of the chart below `deploy/`.
pub const FOLDER: &str = "chart";

/// Folder of its templates below `deploy/`.
pub const TEMPLATES: &str = "chart/templates";
