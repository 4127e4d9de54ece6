//! Lookup of a requested model.

use std::sync::{Arc, PoisonError};

use tetris_store_layout::{ManifestId, ObjectRef};

use super::{Ended, Session};
use crate::residency::{ModelSpec, Part};
use crate::server::object_limit::{ObjectPermit, TooManyObjects};
use crate::server::source::Sources;
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::{Acquire, ModelNamed, Reason, Refused, Request};

/// A model, and the sources of its bytes.
pub(super) struct RequestedModel {
    pub spec: ModelSpec,
    pub sources: Arc<Sources>,
    /// Permit for its objects, kept while the client holds it.
    pub permit: ObjectPermit,
}

impl<D: DeviceMemory> Session<D> {
    /// Reads the messages after an `Acquire`, all of them by one deadline, and looks up the model.
    pub(super) fn model(
        &self,
        acquire: &Acquire,
    ) -> Result<Result<RequestedModel, Refused>, Ended> {
        let deadline = self.deadline();
        let (mut listed, mut received) = (Vec::new(), 0);
        let mut permit = self.core.held.permit(self.tenant.id);
        let mut permitted = Ok(());
        if let ModelNamed::Objects(count) = acquire.model {
            permitted = permit.grow_to(count as usize);
            while received < count as usize {
                match self.request_by(deadline)? {
                    Request::Objects(objects) => {
                        received += objects.len();
                        if permitted.is_ok() {
                            listed.extend(objects);
                        }
                    }
                    _ => {
                        return Err(Ended::OutOfTurn {
                            expected: "Objects",
                        });
                    }
                }
            }
            if received > count as usize {
                let expected = "as many objects as announced";
                return Err(Ended::OutOfTurn { expected });
            }
        }
        let mut order = Vec::new();
        if acquire.order as usize > ModelSpec::MAX_PARTS {
            let expected = "an order of at most as many indexes as a model has objects";
            return Err(Ended::OutOfTurn { expected });
        }
        let mut ordered = 0;
        while ordered < acquire.order as usize {
            match self.request_by(deadline)? {
                Request::Order(indexes) => {
                    ordered += indexes.len();
                    if permitted.is_ok() {
                        order.extend(indexes.iter().map(|at| *at as usize));
                    }
                }
                _ => return Err(Ended::OutOfTurn { expected: "Order" }),
            }
        }
        if let ModelNamed::Manifests(ids) = &acquire.model {
            for id in ids {
                match self.manifest(*id) {
                    Ok(objects) => {
                        permitted = permit.grow_to(listed.len().saturating_add(objects.len()));
                        if permitted.is_err() {
                            break;
                        }
                        listed.extend(objects);
                    }
                    Err(refused) => return Ok(Err(refused)),
                }
            }
        }
        if let Err(TooManyObjects { free }) = permitted {
            let text = format!(
                "the tenant's clients hold models of as many objects as they may, {free} more are permitted; release models"
            );
            return Ok(Err(refused(Reason::IN_USE, text)));
        }
        let _turn = self.tenant.turn();
        Ok(self.checked(&listed, &order, permit))
    }

    fn manifest(&self, id: ManifestId) -> Result<Vec<ObjectRef>, Refused> {
        let reading = &self.core.manifests;
        let _one = reading.lock().unwrap_or_else(PoisonError::into_inner);
        let refused = |text| refused(Reason::MISSING, text);
        match self.tenant.store.manifest(id) {
            Ok(Some(manifest)) => {
                let objects = manifest.objects.iter().map(|entry| entry.object);
                Ok(objects.filter(|object| object.len > 0).collect())
            }
            Ok(None) => Err(refused(format!(
                "expected manifest {id} in the store, found none; load the model into the store first"
            ))),
            Err(error) => Err(refused(error.to_string())),
        }
    }

    fn checked(
        &self,
        listed: &[ObjectRef],
        order: &[usize],
        permit: ObjectPermit,
    ) -> Result<RequestedModel, Refused> {
        let part = |object: &ObjectRef| Part {
            object: object.id,
            len: object.len,
        };
        let parts: Vec<_> = listed.iter().map(part).collect();
        let spec = ModelSpec::try_new(&parts, order);
        let spec = spec.map_err(|error| refused(Reason::INVALID, error.to_string()))?;
        let objects = listed.iter().map(|object| (object.id, *object));
        let pool = Arc::clone(&self.tenant.pool);
        let sources = Arc::new(Sources::new(pool, Arc::new(objects.collect())));
        Ok(RequestedModel {
            spec,
            sources,
            permit,
        })
    }
}

pub(super) fn refused(reason: Reason, text: String) -> Refused {
    Refused {
        reason,
        missing_bytes: 0,
        missing_objects: 0,
        text,
    }
}
