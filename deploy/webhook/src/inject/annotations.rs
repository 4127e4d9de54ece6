//! Wishes in a pod's annotations.

use serde_json::Value;

use super::warnings::{Warnings, shown};
use super::{CONTAINERS_ANNOTATION, PATCH_ANNOTATION, STORE_ANNOTATION};

/// The longest name of a store that is passed on. The node says which names there are.
const STORE_CHARS: usize = 63;

/// Wishes of a pod.
#[derive(Debug)]
pub(super) struct Wishes<'a> {
    /// The value of the variable that patches Python programs; none to leave it out.
    pub(super) patch: Option<&'static str>,
    /// The containers that get the store; all without it.
    pub(super) containers: Option<Vec<&'a str>>,
    /// The store that is asked for.
    pub(super) store: Option<&'a str>,
}

impl<'a> Wishes<'a> {
    pub(super) fn read(pod: &'a Value, warnings: &mut Warnings) -> Self {
        let annotation = |key: &str| {
            let annotations = pod.get("metadata")?.get("annotations")?;
            annotations.get(key)?.as_str().map(str::trim)
        };
        Self {
            patch: patch(annotation(PATCH_ANNOTATION), warnings),
            containers: annotation(CONTAINERS_ANNOTATION).map(names),
            store: annotation(STORE_ANNOTATION).filter(|name| is_store(name, warnings)),
        }
    }

    pub(super) fn chose(&self, container: &str) -> bool {
        let chosen = self.containers.as_ref();
        chosen.is_none_or(|names| names.contains(&container))
    }
}

/// A value that is not known patches nothing: its author wanted something else than the default.
fn patch(annotation: Option<&str>, warnings: &mut Warnings) -> Option<&'static str> {
    match annotation {
        None | Some("true") => Some("1"),
        Some("files") => Some("files"),
        Some("false") => None,
        Some(found) => {
            let found = shown(found);
            warnings.push(format!(
                "TETRIS_PATCH left out: annotation {PATCH_ANNOTATION}: expected \"true\", \"files\" or \"false\", found {found}"
            ));
            None
        }
    }
}

fn names(annotation: &str) -> Vec<&str> {
    let names = annotation.split(',').map(str::trim);
    names.filter(|name| !name.is_empty()).collect()
}

fn is_store(name: &str, warnings: &mut Warnings) -> bool {
    let inside = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = !name.is_empty() && name.len() <= STORE_CHARS && name.chars().all(inside);
    if !good {
        let found = shown(name);
        warnings.push(format!(
            "the namespace's store is used: annotation {STORE_ANNOTATION}: expected a store's name, \
             at most {STORE_CHARS} letters, digits, '-', '_' and '.', found {found}"
        ));
    }
    good
}
