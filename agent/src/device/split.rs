//! Objects of a model's tensors, and their division among connections.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tetris_gpu_mirror::client::{Wanted, WantedModel};
use tetris_store_layout::{ObjectId, ObjectRef};

use super::DeviceError;
use crate::detached::DetachedTensor;
use crate::report::LoadReport;

/// The objects of tensors, each once, in the order of the tensors.
pub(super) fn objects(
    tensors: &[DetachedTensor],
    report: &LoadReport,
) -> Result<Vec<ObjectRef>, DeviceError> {
    let mut seen = HashSet::new();
    let mut objects = Vec::new();
    let mut private = 0;
    for tensor in tensors {
        let Some(region) = &tensor.region else {
            continue;
        };
        match region.object() {
            Some(object) if seen.insert(object.id) => objects.push(*object),
            Some(_) => {}
            None => private += tensor.len as u64,
        }
    }
    if private > 0 {
        let reason = report.private_reason.clone();
        return Err(DeviceError::Private {
            bytes: private,
            reason: reason.unwrap_or_else(|| "the reason is not known".to_owned()),
        });
    }
    Ok(objects)
}

/// Divides the objects into requests of at most `most` objects, one for each connection.
pub(super) fn wanted(
    objects: &[ObjectRef],
    tensors: &[DetachedTensor],
    order: &[String],
    wait: Duration,
    most: usize,
) -> Vec<Wanted> {
    let first = first_used(tensors, order);
    let part = |objects: &[ObjectRef]| {
        let mut order: Vec<(usize, u32)> = Vec::new();
        for (object, index) in objects.iter().zip(0..) {
            order.extend(first.get(&object.id).map(|rank| (*rank, index)));
        }
        order.sort_unstable();
        Wanted {
            model: WantedModel::Objects(objects.to_vec()),
            order: order.into_iter().map(|(_, index)| index).collect(),
            wait,
        }
    };
    objects.chunks(most.max(1)).map(part).collect()
}

/// Rank of each object's first use, as far as `order` gives it.
fn first_used(tensors: &[DetachedTensor], order: &[String]) -> HashMap<ObjectId, usize> {
    if order.is_empty() {
        return HashMap::new();
    }
    let object = |tensor: &DetachedTensor| Some(tensor.region.as_ref()?.object()?.id);
    let by_name = tensors
        .iter()
        .filter_map(|tensor| Some((tensor.name.as_str(), object(tensor)?)));
    let by_name: HashMap<&str, ObjectId> = by_name.collect();
    let mut first = HashMap::new();
    for (rank, name) in order.iter().enumerate() {
        if let Some(id) = by_name.get(name.as_str()) {
            first.entry(*id).or_insert(rank);
        }
    }
    first
}
