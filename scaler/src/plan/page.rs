//! What `/inventory/objects` of a node answers.

use serde_json::Value;

use super::error::PlanError;
use super::read::Document;
use crate::nodes::Page;
use crate::resources::FieldProblem;

/// What a node has, and where that is from.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) at: String,
    pub(super) node: String,
    pub(super) page: Page,
}

/// Whether a document without a kind is such a page.
pub(super) fn is_page(document: &Document) -> bool {
    document.value.get("stores").is_some()
}

pub(super) fn stored(document: &Document) -> Result<Stored, PlanError> {
    let at = document.at.clone();
    let Some(node) = document.value.get("node").and_then(Value::as_str) else {
        let problem = "expected the node's name, which its daemon has from NODE_NAME; add it";
        let problem = FieldProblem::new("node", problem);
        return Err(PlanError::Field { at, problem });
    };
    match Page::read(document.value.to_string().as_bytes(), node) {
        Ok(page) => Ok(Stored {
            at,
            node: node.to_owned(),
            page,
        }),
        Err(problem) => Err(PlanError::Document { at, problem }),
    }
}
