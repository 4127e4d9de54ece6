//! Function whose model a pod loads.

use std::sync::Arc;

use super::wire::Pod;
use crate::labels;
use crate::state::{FunctionState, Key, Snapshot};

/// Returns the function whose tensors the pod loads, or `None` if the pod names none or an unknown
/// one. The label takes precedence over the annotation.
pub fn wanted<'a>(snapshot: &'a Snapshot, pod: &Pod) -> Option<&'a Arc<FunctionState>> {
    let metadata = &pod.metadata;
    let namespace = metadata.namespace.as_str();
    let found = metadata.labels.as_ref();
    if let Some(name) = found.and_then(|found| found.get(labels::FUNCTION)) {
        return snapshot.functions.get(&Key::new(namespace, name));
    }
    let annotations = metadata.annotations.as_ref();
    let profile = annotations.and_then(|annotations| annotations.get(labels::PROFILE))?;
    let mut of_namespace = snapshot
        .functions
        .range(Key::new(namespace, "")..)
        .take_while(|(key, _)| key.namespace == namespace);
    let found = of_namespace.find(|(_, state)| state.function.profile == *profile);
    found.map(|(_, state)| state)
}
