//! Names of the operator's objects.

/// Returns the name of the Deployment for a function's configuration. Names are unique: their last
/// three parts are always the configuration's.
pub fn deployment_name(function: &str, configuration: &str) -> String {
    format!("{function}-{configuration}")
}
