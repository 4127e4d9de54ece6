//! The annotation with which a pod declares its models: a list of [`Declaration`]s.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::keep_warm::{Declaration, DeclarationError};

/// The annotation's key where the daemon's configuration names no other.
pub const DEFAULT_ANNOTATION: &str = "tetris.dev/models";

/// Most models that one pod may declare.
pub const MAX_MODELS: usize = 1024;

/// Contents of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredModels {
    /// The models that it declares.
    pub models: BTreeSet<Declaration>,
    /// Number of items left out.
    pub left_out: u64,
    /// The reason for the first of them. Other reasons are dropped, because a list can have any
    /// length.
    pub first_error: Option<ItemError>,
}

/// The reason an item of a list was left out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ItemError {
    /// It does not name a model.
    #[error(transparent)]
    Malformed(#[from] DeclarationError),
    /// The pod declares too many.
    #[error("model \"{item}\" is one too many: a pod may declare {MAX_MODELS}")]
    TooMany {
        /// The first that was left out.
        item: Declaration,
    },
}

impl DeclaredModels {
    fn leave_out(&mut self, error: ItemError) {
        self.left_out += 1;
        self.first_error.get_or_insert(error);
    }

    fn take(&mut self, item: Declaration) {
        if self.models.len() < MAX_MODELS || self.models.contains(&item) {
            self.models.insert(item);
        } else {
            self.leave_out(ItemError::TooMany { item });
        }
    }
}

/// Reads a list: items separated by commas, white space or both. Wrong items are left out, the
/// others count.
pub fn parse_annotation(list: &str) -> DeclaredModels {
    let mut declared = DeclaredModels::default();
    let separator = |character: char| character == ',' || character.is_whitespace();
    for item in list.split(separator).filter(|item| !item.is_empty()) {
        match item.parse() {
            Ok(item) => declared.take(item),
            Err(error) => declared.leave_out(error.into()),
        }
    }
    declared
}
