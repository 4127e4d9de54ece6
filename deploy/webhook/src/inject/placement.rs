//! Scheduling gate of pods that name their model, which the scaler opens.

use json_patch::Patch;
use serde_json::{Value, json};

use super::warnings::{Warnings, shown};
use super::{GATE, InjectionOutcome, PROFILE_ANNOTATION, lists};

/// Maximum length of the name of a ModelProfile, as of every object.
const NAME_CHARS: usize = 253;

/// Returns the addition of the gate, for a pod with the annotation that has no node yet.
pub(super) fn gate(pod: &Value, warnings: &mut Warnings) -> (Patch, InjectionOutcome) {
    let unchanged = |outcome| (Patch::default(), outcome);
    let annotations = pod.pointer("/metadata/annotations");
    let profile = annotations.and_then(|annotations| annotations.get(PROFILE_ANNOTATION));
    let Some(profile) = profile else {
        return unchanged(InjectionOutcome::NotAsked);
    };
    let profile = profile.as_str().unwrap_or_default();
    if profile.is_empty() || profile.len() > NAME_CHARS {
        let found = shown(profile);
        warnings.push(format!(
            "no gate added: annotation {PROFILE_ANNOTATION}: expected the name of a ModelProfile, found {found}"
        ));
        return unchanged(InjectionOutcome::Refused);
    }
    let spec = pod.get("spec").filter(|spec| spec.is_object());
    let gates = spec.and_then(|spec| Some((spec, lists::items(spec, "schedulingGates")?)));
    let Some((spec, gates)) = gates else {
        warnings.push("no gate added: spec.schedulingGates: expected a list");
        return unchanged(InjectionOutcome::Refused);
    };
    // The API server refuses a pod with a node and a gate.
    let has_node = lists::text(spec, "nodeName").is_some_and(|node| !node.is_empty());
    let is_ours = |gate: &Value| lists::text(gate, "name") == Some(GATE);
    if has_node || gates.iter().any(is_ours) {
        return unchanged(InjectionOutcome::Complete);
    }
    let ours = vec![json!({"name": GATE})];
    let patch = lists::append(spec, &["spec"], "schedulingGates", ours);
    (Patch(patch), InjectionOutcome::Injected)
}
