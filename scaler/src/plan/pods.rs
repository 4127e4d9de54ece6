//! Pods: instances of the functions, and what others take of the nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;
use tetris_scaler_core::{InstanceView, Phase, Resources};

use super::functions::Function;
use crate::nodes::{bytes, millis};
use crate::state::Key;

/// The labels of an instance.
const FUNCTION: &str = "tetris.dev/function";
const CONFIGURATION: &str = "tetris.dev/configuration";

/// What a pod is to a plan.
pub(super) enum Role {
    /// It has ended.
    Nothing,
    /// An instance of a function, in a configuration that its profile has.
    Instance(InstanceView),
    /// It takes so much of its node.
    Other { node: String, takes: Resources },
}

/// What `pod` is; `nodes` are indices by name.
pub(super) fn role(
    pod: &Pod,
    functions: &[Function],
    nodes: &BTreeMap<&str, usize>,
) -> Result<Role, String> {
    let phase = pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref());
    if matches!(phase, Some("Succeeded" | "Failed")) {
        return Ok(Role::Nothing);
    }
    let spec = pod.spec.as_ref();
    let node = spec.and_then(|spec| spec.node_name.as_deref());
    if let Some(instance) = instance(pod, functions, node.and_then(|node| nodes.get(node))) {
        return Ok(Role::Instance(instance));
    }
    match (spec, node) {
        (Some(spec), Some(node)) => Ok(Role::Other {
            node: node.to_owned(),
            takes: takes(spec)?,
        }),
        _ => Ok(Role::Nothing),
    }
}

fn instance(pod: &Pod, functions: &[Function], node: Option<&usize>) -> Option<InstanceView> {
    let namespace = pod.namespace().unwrap_or_default();
    let key = Key::new(namespace, pod.labels().get(FUNCTION)?);
    let name = pod.labels().get(CONFIGURATION)?;
    let at = functions.iter().position(|function| function.key == key)?;
    let names = functions.get(at).map(|function| &function.names)?;
    let configuration = names.iter().position(|one| one == name)?;
    Some(InstanceView {
        name: pod.name_any(),
        function: at,
        configuration: Some(configuration),
        node: node.copied(),
        phase: phase(pod),
        load: None,
        retiring: false,
    })
}

fn phase(pod: &Pod) -> Phase {
    if pod.metadata.deletion_timestamp.is_some() {
        return Phase::Leaving;
    }
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let ready = conditions.into_iter().flatten();
    let mut ready = ready.filter(|condition| condition.type_ == "Ready");
    match ready.next() {
        Some(condition) if condition.status != "True" => Phase::Starting,
        // A pod of a file that somebody wrote has no status.
        _ => Phase::Ready,
    }
}

/// What the scheduler counts: all containers together, or the largest init container if that is more, and overhead.
fn takes(spec: &PodSpec) -> Result<Resources, String> {
    let mut sum = Resources::default();
    for container in &spec.containers {
        sum = plus(sum, requests(container)?);
    }
    let mut most = Resources::default();
    for container in spec.init_containers.iter().flatten() {
        let one = requests(container)?;
        if container.restart_policy.as_deref() == Some("Always") {
            // It goes on beside the others.
            sum = plus(sum, one);
        } else {
            most.cpu_millis = most.cpu_millis.max(one.cpu_millis);
            most.memory_bytes = most.memory_bytes.max(one.memory_bytes);
        }
    }
    let overhead = spec
        .overhead
        .as_ref()
        .map_or(Ok(Resources::default()), amounts);
    let all = Resources {
        cpu_millis: sum.cpu_millis.max(most.cpu_millis),
        memory_bytes: sum.memory_bytes.max(most.memory_bytes),
    };
    Ok(plus(all, overhead?))
}

fn requests(container: &Container) -> Result<Resources, String> {
    let resources = container.resources.as_ref();
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    requests.map_or(Ok(Resources::default()), amounts)
}

fn amounts(of: &BTreeMap<String, Quantity>) -> Result<Resources, String> {
    let read = |name: &str, parse: fn(&str) -> Option<u64>| {
        of.get(name).map_or(Ok(0), |quantity: &Quantity| {
            let wrong = || {
                format!(
                    "found {name} {:?}, expected a quantity such as 500m",
                    quantity.0
                )
            };
            parse(&quantity.0).ok_or_else(wrong)
        })
    };
    Ok(Resources {
        cpu_millis: read("cpu", millis)?,
        memory_bytes: read("memory", bytes)?,
    })
}

fn plus(a: Resources, b: Resources) -> Resources {
    Resources {
        cpu_millis: a.cpu_millis.saturating_add(b.cpu_millis),
        memory_bytes: a.memory_bytes.saturating_add(b.memory_bytes),
    }
}
