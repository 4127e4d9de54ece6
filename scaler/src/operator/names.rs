//! What the operator calls things.

/// The Deployment of a function's configuration. No two have the same: a configuration's name has no part
/// that could belong to a function's.
pub fn deployment_name(function: &str, configuration: &str) -> String {
    format!("{function}-{configuration}")
}
