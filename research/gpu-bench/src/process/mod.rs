//! Processes of a measure, which run this program again.
//!
//! A child gets an order as a line of JSON on standard input, and sends its
//! results as lines of JSON on standard output (`Said`). After that every line on its input lets it
//! continue. It ends when its input does. The kernel kills it when the thread that started it ends,
//! so no child outlives its parent.

mod child;
mod parent;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use child::Parent;
pub(crate) use child::{end_with, order, tell_error};
pub use parent::{Launcher, Process};

/// A message of a child.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Said {
    /// The result of its role.
    Result(Value),
    /// The error that ends it.
    Error(String),
}
