//! Checked options of the watch. The name of a node that does not exist selects no pods, and then
//! nothing would be warm.

use thiserror::Error;

const MAX_SUBDOMAIN_BYTES: usize = 253;
const MAX_KEY_NAME_BYTES: usize = 63;

/// Options of the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchOptions {
    node: String,
    annotation: String,
}

/// The reason options are invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The node's name is none.
    #[error(
        "node name {found:?}: expected lower-case letters, digits, '-' and '.', at most 253 bytes; \
         give the daemon the name that `kubectl get nodes` prints (in a pod: fieldRef spec.nodeName)"
    )]
    Node {
        /// The given name.
        found: String,
    },
    /// The annotation's key is none.
    #[error(
        "annotation {found:?}: expected `name` or `domain/name` as Kubernetes allows it, such as `tetris.dev/models`"
    )]
    Annotation {
        /// The given key.
        found: String,
    },
}

impl WatchOptions {
    /// Pods of `node`, and on them the annotation with the key `annotation`
    /// (see [`DEFAULT_ANNOTATION`](super::DEFAULT_ANNOTATION)).
    pub fn try_new(node: &str, annotation: &str) -> Result<Self, OptionsError> {
        if !is_subdomain(node) {
            return Err(OptionsError::Node { found: node.into() });
        }
        if !is_annotation_key(annotation) {
            let found = annotation.into();
            return Err(OptionsError::Annotation { found });
        }
        Ok(Self {
            node: node.into(),
            annotation: annotation.into(),
        })
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The annotation's key.
    pub fn annotation(&self) -> &str {
        &self.annotation
    }

    /// Selector of the pods to list and watch.
    pub(super) fn field_selector(&self) -> String {
        format!("spec.nodeName={}", self.node)
    }
}

/// RFC 1123, as Kubernetes has it for nodes and for the part of a key before the slash.
fn is_subdomain(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    text.len() <= MAX_SUBDOMAIN_BYTES && text.split('.').all(|label| is_label(label, inside, b"-"))
}

/// See "Syntax and character set" of annotations in Kubernetes' documentation.
fn is_annotation_key(key: &str) -> bool {
    let (domain, name) = match key.split_once('/') {
        Some((domain, name)) => (Some(domain), name),
        None => (None, key),
    };
    let inside = |byte: u8| byte.is_ascii_alphanumeric();
    domain.is_none_or(is_subdomain)
        && name.len() <= MAX_KEY_NAME_BYTES
        && is_label(name, inside, b"-_.")
}

/// Letters, and between the first and the last of them also `joints`.
fn is_label(label: &str, letter: impl Fn(u8) -> bool, joints: &[u8]) -> bool {
    let bytes = label.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    ends.iter().all(|end| end.is_some_and(|byte| letter(*byte)))
        && bytes
            .iter()
            .all(|byte| letter(*byte) || joints.contains(byte))
}
