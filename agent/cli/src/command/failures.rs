//! Models that could not be done, in a command that goes on with the others.

use std::path::Path;

use serde_json::Value;

use super::error::{Error, Result};
use super::loading::lossy;
use super::output;

/// Models with their errors, in the order of the command line.
#[derive(Debug, Default)]
pub(crate) struct Failures<'a>(Vec<(&'a Path, Error)>);

impl<'a> Failures<'a> {
    /// Notes that the model at `path` could not be done.
    pub(crate) fn add(&mut self, path: &'a Path, error: Error) {
        self.0.push((path, error));
    }

    /// Each error as an object, with its `model`.
    pub(crate) fn to_json(&self) -> Vec<Value> {
        let errors = self.0.iter().map(|(path, error)| {
            let mut object = error.document().object();
            object["model"] = lossy(path).into();
            object
        });
        errors.collect()
    }

    /// Ends the command: its error is the last one, and those before it are said.
    pub(crate) fn end(mut self) -> Result {
        let last = self.0.pop();
        for (_, error) in self.0 {
            output::error(error);
        }
        last.map_or(Ok(()), |(_, error)| Err(error))
    }
}
