//! Pods inside other objects, for trying what a pod would get without a cluster.

use serde_json::Value;

use super::{Injection, Options, Scope, inject};

/// Paths of a pod or a pod template in objects: itself, Deployments and Jobs, CronJobs, PodTemplates.
const PLACES: [&str; 4] = [
    "",
    "/spec/template",
    "/spec/jobTemplate/spec/template",
    "/template",
];

/// An object with its pods injected.
#[derive(Debug, Clone, PartialEq)]
pub struct Templates {
    /// The object.
    pub object: Value,
    /// Injections into each pod or template: the object's kind and name, and the injection.
    pub injections: Vec<(String, Injection)>,
}

/// Injects into the pod that `object` is, into the template that it has, or into each item of a list.
pub fn inject_templates(mut object: Value, scope: Scope, options: &Options) -> Templates {
    let mut injections = Vec::new();
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        for item in items {
            injections.extend(inject_one(item, scope, options));
        }
    } else {
        injections.extend(inject_one(&mut object, scope, options));
    }
    Templates { object, injections }
}

fn inject_one(object: &mut Value, scope: Scope, options: &Options) -> Option<(String, Injection)> {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or("?")
    };
    let called = format!("{} {}", text("/kind"), text("/metadata/name"));
    let has_pod = |place: &&str| {
        let containers = object.pointer(&format!("{place}/spec/containers"));
        containers.is_some_and(Value::is_array)
    };
    let place = PLACES.iter().copied().find(has_pod)?;
    let pod = object.pointer_mut(place)?;
    let injection = inject(pod, scope, options);
    // An operation that does not apply would be our own mistake; the object stays as it is then.
    json_patch::patch(pod, &injection.patch).ok()?;
    Some((called, injection))
}
