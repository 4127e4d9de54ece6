//! A node's page `/inventory/objects` as input of a plan.

use serde_json::Value;

use super::error::PlanError;
use super::read::Document;
use crate::nodes::Page;
use crate::resources::FieldProblem;

/// Page of a node, and its source.
#[derive(Debug)]
pub(super) struct Stored {
    pub(super) at: String,
    pub(super) node: String,
    pub(super) page: Page,
}

/// Returns true if a document without a kind is such a page.
pub(super) fn is_page(document: &Document) -> bool {
    document.value.get("stores").is_some()
}

pub(super) fn stored(document: &Document) -> Result<Stored, PlanError> {
    let at = document.at.clone();
    let Some(node) = document.value.get("node").and_then(Value::as_str) else {
        let problem =
            "found none, expected the node's name, which its daemon has from NODE_NAME; add it";
        let problem = FieldProblem::new("node", problem);
        return Err(PlanError::Field { at, problem });
    };
    match Page::read(document.value.to_string().as_bytes(), node) {
        Ok(page) => Ok(Stored {
            at,
            node: node.to_owned(),
            page,
        }),
        Err(error) => {
            let problem = error.to_string();
            Err(PlanError::Document { at, problem })
        }
    }
}
