//! Access to a function: the paths that it serves, and its callers.

use hyper::{Method, StatusCode};
use tetris_scaler::resources::{AllowedCallers, ServedPaths};

use crate::function_name::FunctionName;
use crate::problem::{Problem, shortened};

/// Access to a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// Paths that it serves.
    pub paths: ServedPaths,
    /// Callers that it is for.
    pub callers: AllowedCallers,
}

impl Default for Access {
    /// The paths of inference protocols, for all who reach the gateway.
    fn default() -> Self {
        Self::by_paths(ServedPaths::default())
    }
}

impl Access {
    /// These paths, for all who reach the gateway.
    pub(crate) const fn by_paths(paths: ServedPaths) -> Self {
        Self {
            paths,
            callers: AllowedCallers::Anyone,
        }
    }

    /// Refuses requests to other paths of its instances, such as those that manage a server.
    pub(crate) fn check_path(
        &self,
        function: &FunctionName,
        method: &Method,
        path: &str,
    ) -> Result<(), Problem> {
        if self.paths.serve(method.as_str(), path) {
            return Ok(());
        }
        let message = format!(
            "function {function} does not serve {} {}; its `paths` say what it serves",
            shortened(method.as_str()),
            shortened(path)
        );
        Err(Problem::new(StatusCode::NOT_FOUND, "path", message))
    }
}
