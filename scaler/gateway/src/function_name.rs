//! Names of functions.

/// Name of a function: its namespace, if it has one, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FunctionName {
    /// Namespace; empty for functions of a file.
    pub namespace: String,
    /// Name within the namespace.
    pub name: String,
}

impl std::fmt::Display for FunctionName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            return f.write_str(&self.name);
        }
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
