//! Whose model a pod loads.

use super::wire::Pod;

/// The label that all instances of a function have.
pub const FUNCTION_LABEL: &str = "tetris.dev/function";
/// The annotation of a pod that is no function's instance and loads the model of a ModelProfile of its namespace.
pub const PROFILE_ANNOTATION: &str = "tetris.dev/profile";

/// Where a pod's model is written down.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// An InferenceFunction.
    Function {
        /// Its namespace, which is the pod's.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// A ModelProfile.
    Profile {
        /// Its namespace, which is the pod's.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What the pod says; `None` if it says nothing. The label goes first.
pub fn owner(pod: &Pod) -> Option<Owner> {
    let metadata = &pod.metadata;
    let namespace = metadata.namespace.clone();
    let labels = metadata.labels.as_ref();
    if let Some(name) = labels.and_then(|labels| labels.get(FUNCTION_LABEL)) {
        let name = name.clone();
        return Some(Owner::Function { namespace, name });
    }
    let annotations = metadata.annotations.as_ref();
    let name = annotations.and_then(|annotations| annotations.get(PROFILE_ANNOTATION));
    name.cloned().map(|name| Owner::Profile { namespace, name })
}
