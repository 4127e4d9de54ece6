//! Names of the operator's objects.

/// Returns the name of the Deployment for a function's configuration. Names are unique: the last parts
/// are always the configuration's, as no type of GPU is called like one.
pub fn deployment_name(function: &str, configuration: &str) -> String {
    format!("{function}-{configuration}")
}
