//! Wishes in a pod's annotations.

use serde_json::Value;

use super::warnings::{Warnings, shown};
use super::{
    CONTAINERS_ANNOTATION, GPU_TEMPLATE_ANNOTATION, GPU_TEMPLATE_ENV, PATCH_ANNOTATION,
    STORE_ANNOTATION,
};

/// The longest name of a store passed on. The node defines the names.
const STORE_CHARS: usize = 63;

/// Wishes of a pod.
#[derive(Debug)]
pub(super) struct Wishes<'a> {
    /// The value of the variable that patches Python programs; none to leave it out.
    pub(super) patch: Option<&'static str>,
    /// The value of the variable that has the GPU mirror keep prefixes of models; none to leave it out.
    pub(super) gpu_template: Option<&'a str>,
    /// The containers that get the store; all without it.
    pub(super) containers: Option<Vec<&'a str>>,
    /// The store asked for.
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
            gpu_template: gpu_template(annotation(GPU_TEMPLATE_ANNOTATION), warnings),
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

/// Longest time to a first token, in seconds, as of the GPU mirror's configuration.
const TEMPLATE_SECS: f64 = 3600.0;

fn gpu_template<'a>(annotation: Option<&'a str>, warnings: &mut Warnings) -> Option<&'a str> {
    match annotation? {
        "true" => Some("1"),
        "false" => None,
        time if is_time(time) => Some(time),
        found => {
            let found = shown(found);
            warnings.push(format!(
                "{GPU_TEMPLATE_ENV} left out: annotation {GPU_TEMPLATE_ANNOTATION}: expected \"true\", \"false\" or a time to \
                 the first token such as \"250ms\" or \"1.5s\", at most {TEMPLATE_SECS} s, found {found}"
            ));
            None
        }
    }
}

/// Digits with at most one point, and a unit: `ms` or `s`.
fn is_time(text: &str) -> bool {
    let (number, scale) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1e-3),
        (None, Some(number)) => (number, 1.0),
        (None, None) => return false,
    };
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let secs = number.parse::<f64>().ok().filter(|_| plain);
    secs.is_some_and(|secs| secs > 0.0 && secs * scale <= TEMPLATE_SECS)
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
