//! Objects of a model's tensors, and their division among connections.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tetris_gpu_client::{Wanted, WantedModel};
use tetris_store_layout::{ObjectId, ObjectRef};

use super::DeviceError;
use crate::known_model::StoredTensor;
use crate::report::LoadReport;

/// The objects of tensors, each once, in the order of the tensors.
pub(super) fn objects(
    tensors: &[StoredTensor],
    report: &LoadReport,
) -> Result<Vec<ObjectRef>, DeviceError> {
    let mut seen = HashSet::new();
    let mut objects = Vec::new();
    let mut private = 0;
    for tensor in tensors {
        match tensor.place {
            Some((object, _)) if seen.insert(object.id) => objects.push(object),
            Some(_) => {}
            None => private += tensor.len,
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
    tensors: &[StoredTensor],
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
fn first_used(tensors: &[StoredTensor], order: &[String]) -> HashMap<ObjectId, usize> {
    if order.is_empty() {
        return HashMap::new();
    }
    let by_name = tensors
        .iter()
        .filter_map(|tensor| Some((tensor.name.as_str(), tensor.place?.0.id)));
    let by_name: HashMap<&str, ObjectId> = by_name.collect();
    let mut first = HashMap::new();
    for (rank, name) in order.iter().enumerate() {
        if let Some(id) = by_name.get(name.as_str()) {
            first.entry(*id).or_insert(rank);
        }
    }
    first
}
