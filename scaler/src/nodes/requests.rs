//! Resource requests of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use tetris_scaler_core::Resources;
use thiserror::Error;

use crate::quantity::{bytes, millis};

/// A quantity that does not parse.
#[derive(Debug, Error)]
#[error("found {name} {found:?}, expected a quantity such as 500m")]
pub struct QuantityError {
    name: String,
    found: String,
}

/// Returns the resources that the scheduler counts for a pod. That is the sum of the containers and
/// sidecars, or the largest init container if it needs more; and the pod's overhead.
///
/// # Errors
///
/// Names the quantity that does not parse.
pub fn requests(spec: &PodSpec) -> Result<Resources, QuantityError> {
    let mut sum = Resources::default();
    for entry in &spec.containers {
        sum = plus(sum, container(entry)?);
    }
    let mut most = Resources::default();
    for entry in spec.init_containers.iter().flatten() {
        let takes = container(entry)?;
        if entry.restart_policy.as_deref() == Some("Always") {
            sum = plus(sum, takes);
        } else {
            most = largest(most, takes);
        }
    }
    let overhead = spec.overhead.as_ref().map(amounts).transpose()?;
    Ok(plus(largest(sum, most), overhead.unwrap_or_default()))
}

fn container(container: &Container) -> Result<Resources, QuantityError> {
    let resources = container.resources.as_ref();
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    requests.map_or(Ok(Resources::default()), amounts)
}

fn amounts(of: &BTreeMap<String, Quantity>) -> Result<Resources, QuantityError> {
    let read = |name: &str, parse: fn(&str) -> Option<u64>| {
        of.get(name).map_or(Ok(0), |quantity: &Quantity| {
            parse(&quantity.0).ok_or_else(|| QuantityError {
                name: name.to_owned(),
                found: quantity.0.clone(),
            })
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

fn largest(a: Resources, b: Resources) -> Resources {
    Resources {
        cpu_millis: a.cpu_millis.max(b.cpu_millis),
        memory_bytes: a.memory_bytes.max(b.memory_bytes),
    }
}
