//! Admission of one model to one device.

use std::collections::BTreeSet;

use tetris_store_layout::ObjectId;

use super::device::{Device, Object};
use super::{Admission, ClientId, Copy, Freed, ModelKey, ModelSpec, Part, Refusal, TenantId};
use crate::arena::{Arena, NewChunk, PlaceError};

/// A request for a model on a device.
pub(super) struct Request<'a> {
    pub tenant: TenantId,
    pub client: ClientId,
    pub spec: &'a ModelSpec,
    pub quota_bytes: u64,
    pub now_ms: u64,
}

/// Result of a successful placement.
struct Placed {
    created: Vec<NewChunk>,
    copies: BTreeSet<ObjectId>,
}

/// The error of a placement without room.
pub(super) struct NoRoom {
    pub need_bytes: u64,
}

impl Device {
    /// Places the model's missing objects in free memory, and holds the model. Changes nothing on an
    /// error (B2).
    pub fn admit(&mut self, request: &Request<'_>) -> Result<Admission, Refusal> {
        self.check_lengths(request)?;
        let missing = self.missing(request);
        let placed = self.place_parts(request, &missing, None);
        let created = placed.map_err(|no_room| self.refusal(request, &no_room))?;
        self.hold(request.tenant, request.client, request.spec, request.now_ms);
        for part in &missing {
            if let Some(object) = self.objects.get_mut(&(request.tenant, part.object)) {
                object.held = 1;
            }
        }
        let mut freed = Freed::default();
        self.trim(&mut freed);
        let copies = missing.iter().map(|part| part.object).collect();
        Ok(self.describe(request, freed, Placed { created, copies }))
    }

    /// The same, with evictions for it. Evictions are tried on a copy of the device, which is kept only
    /// on success (B2).
    pub fn admit_with_evictions(&mut self, request: &Request<'_>) -> Result<Admission, Refusal> {
        self.check_lengths(request)?;
        let mut trial = self.clone();
        // Its own objects are not evicted for it.
        trial.hold(request.tenant, request.client, request.spec, request.now_ms);
        let mut freed = Freed::default();
        let placed = trial.make_room(request, &mut freed)?;
        trial.trim(&mut freed);
        let admission = trial.describe(request, freed, placed);
        *self = trial;
        Ok(admission)
    }

    pub fn check_lengths(&self, request: &Request<'_>) -> Result<(), Refusal> {
        for part in request.spec.parts() {
            let here = self.objects.get(&(request.tenant, part.object));
            if let Some(found) = here.map(|object| object.len).filter(|len| *len != part.len) {
                return Err(Refusal::Length {
                    object: part.object,
                    expected: part.len,
                    found,
                });
            }
        }
        Ok(())
    }

    fn missing(&self, request: &Request<'_>) -> Vec<Part> {
        let parts = request.spec.parts().iter();
        let absent = |part: &&Part| !self.objects.contains_key(&(request.tenant, part.object));
        parts.filter(absent).copied().collect()
    }

    /// Number of bytes by which the tenant's arena may grow.
    fn room(&self, request: &Request<'_>) -> u64 {
        let device = self.capacity_bytes.saturating_sub(self.created_bytes());
        let quota = request
            .quota_bytes
            .saturating_sub(self.created_by(request.tenant));
        device.min(quota)
    }

    /// Assigns positions to the missing objects, all or none, and marks them as being copied.
    fn place_missing(&mut self, request: &Request<'_>) -> Result<Placed, NoRoom> {
        let missing = self.missing(request);
        let created = self.place_parts(request, &missing, Some(request.spec.key()))?;
        Ok(Placed {
            created,
            copies: missing.iter().map(|part| part.object).collect(),
        })
    }

    /// Assigns positions to parts that are not here, all or none, and marks them as being copied:
    /// for a held model, or else for templates.
    pub fn place_parts(
        &mut self,
        request: &Request<'_>,
        missing: &[Part],
        holder: Option<ModelKey>,
    ) -> Result<Vec<NewChunk>, NoRoom> {
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let room = self.room(request);
        let wanted: Vec<_> = missing.iter().map(|part| (part.object, part.len)).collect();
        let no_room = |error| NoRoom {
            need_bytes: match error {
                PlaceError::NoRoom { need_bytes, .. } => need_bytes,
                PlaceError::Twice(_) | PlaceError::Length { .. } => u64::MAX,
            },
        };
        let placement = if let Some(arena) = self.arenas.get_mut(&request.tenant) {
            arena.place(&wanted, room).map_err(no_room)?
        } else {
            let mut arena = Arena::new(self.config.arena);
            let placement = arena.place(&wanted, room).map_err(no_room)?;
            self.arenas.insert(request.tenant, arena);
            placement
        };
        let kept = self.kept_counts(request.tenant);
        for part in missing {
            let object = Object {
                len: part.len,
                models: holder.into_iter().collect(),
                held: holder.iter().count(),
                copying: true,
                kept: kept.get(&part.object).copied().unwrap_or(0),
                pins: 0,
            };
            self.objects.insert((request.tenant, part.object), object);
        }
        Ok(placement.created)
    }

    /// Evicts idle models one by one until the missing objects have positions.
    fn make_room(&mut self, request: &Request<'_>, freed: &mut Freed) -> Result<Placed, Refusal> {
        // If the quota is the obstacle, the tenant's own models leave first; if the device is full,
        // models of all tenants leave in one order.
        let mut placed = self.place_missing(request);
        for tenant in [Some(request.tenant), None] {
            for victim in self.candidates(tenant) {
                let Err(NoRoom { need_bytes }) = placed else {
                    break;
                };
                let (taken, limit) = match tenant {
                    Some(tenant) => (self.created_by(tenant), request.quota_bytes),
                    None => (self.created_bytes(), self.capacity_bytes),
                };
                if taken.saturating_add(need_bytes) <= limit {
                    break;
                }
                if self.is_worth_evicting(victim) {
                    self.evict(victim, freed);
                    // An attempt takes long, and in vain as long as there is less room than bytes.
                    if self.may_hold_missing(request) {
                        placed = self.place_missing(request);
                    }
                }
            }
        }
        if placed.is_err() {
            self.start_over(request, freed);
            placed = self.place_missing(request);
        }
        for tenant in [Some(request.tenant), None] {
            let Err(NoRoom { need_bytes }) = placed else {
                break;
            };
            // Other tenants' prefixes do not help against a quota.
            if tenant.is_none() && self.within_capacity(need_bytes) {
                break;
            }
            let spared = Some((request.tenant, request.spec.key()));
            self.shorten_while(tenant, spared, freed, |device, _| {
                placed = device.place_missing(request);
                placed.is_err()
            });
        }
        placed.map_err(|no_room| self.refusal(request, &no_room))
    }

    /// Returns false if the missing objects have more bytes than the tenant's holes and the chunks that it
    /// may get.
    fn may_hold_missing(&self, request: &Request<'_>) -> bool {
        let arena = self.arenas.get(&request.tenant);
        let holes = arena.map_or(0, |arena| arena.stats().waste_bytes());
        let missing: u64 = self.missing(request).iter().map(|part| part.len).sum();
        missing <= self.room(request).saturating_add(holes)
    }

    /// Returns true if the device's capacity allows this number of further bytes of chunks.
    fn within_capacity(&self, bytes: u64) -> bool {
        self.created_bytes().saturating_add(bytes) <= self.capacity_bytes
    }

    /// Removes the objects of this model that are here and not in use, so that the model can be
    /// placed anew without the holes around them. Idle models that share such an object lose it.
    fn start_over(&mut self, request: &Request<'_>, freed: &mut Freed) {
        let key = request.spec.key();
        let clients = self.models.get(&(request.tenant, key));
        if clients.is_none_or(|model| model.clients.values().sum::<u64>() > 1) {
            return;
        }
        for part in request.spec.parts() {
            let here = self.objects.get(&(request.tenant, part.object));
            if here.is_some_and(|object| object.held == 1 && !object.copying && object.pins == 0) {
                self.remove(request.tenant, &part.object, freed);
            }
        }
    }

    /// The reason no room is left after every idle model was evicted.
    pub fn refusal(&self, request: &Request<'_>, no_room: &NoRoom) -> Refusal {
        let parts = request.spec.parts().iter();
        let all: Vec<(ObjectId, u64)> = parts.map(|part| (part.object, part.len)).collect();
        let alone = Arena::new(self.config.arena.with_exact_chunks()).place(&all, u64::MAX);
        let alone = alone.map_or(u64::MAX, |placement| {
            placement.created.iter().map(|chunk| chunk.bytes).sum()
        });
        let created = self.created_bytes();
        let held_bytes = self.created_by(request.tenant);
        let limit_bytes = self.limit_bytes.max(self.capacity_bytes);
        if alone > limit_bytes {
            Refusal::TooLarge {
                need_bytes: alone,
                capacity_bytes: limit_bytes,
            }
        } else if held_bytes.saturating_add(no_room.need_bytes) > request.quota_bytes {
            Refusal::Quota {
                tenant: request.tenant,
                quota_bytes: request.quota_bytes,
                held_bytes,
                need_bytes: no_room.need_bytes,
            }
        } else if alone > self.capacity_bytes {
            Refusal::Taken {
                need_bytes: alone,
                capacity_bytes: self.capacity_bytes,
                limit_bytes,
            }
        } else {
            Refusal::InUse {
                need_bytes: no_room.need_bytes,
                free_bytes: self.capacity_bytes.saturating_sub(created),
                held_bytes: created,
            }
        }
    }

    /// Lists the caller's actions for a successful admission.
    fn describe(&self, request: &Request<'_>, freed: Freed, placed: Placed) -> Admission {
        let mut admission = Admission {
            device: self.id,
            freed,
            created: placed.created,
            copies: Vec::new(),
            awaited: Vec::new(),
            places: Vec::new(),
        };
        for part in request.spec.parts() {
            let object = part.object;
            let Some(place) = self.place_of(request.tenant, &object) else {
                continue;
            };
            admission.places.push((object, place));
            let state = self.objects.get(&(request.tenant, object));
            if placed.copies.contains(&object) {
                admission.copies.push(Copy { object, place });
            } else if state.is_some_and(|state| state.copying) {
                admission.awaited.push(object);
            }
        }
        admission
    }
}
