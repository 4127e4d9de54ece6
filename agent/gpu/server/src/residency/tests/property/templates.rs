//! Kept prefixes: their steps, and what must hold of them after every step.

use std::collections::BTreeMap;

use super::reference::Reference;
use super::{Step, config};
use crate::arena::Arena;
use crate::residency::{DeviceId, Freed, Manager, ModelKey, ModelSpec, TenantId};

const DEVICES: [DeviceId; 2] = [DeviceId(0), DeviceId(1)];

type Name = (DeviceId, TenantId, ModelKey);

fn templates(manager: &Manager) -> BTreeMap<Name, (ModelSpec, usize)> {
    let of = |device| {
        let templates = manager.templates(device).into_iter();
        templates.map(move |(tenant, spec, kept)| ((device, tenant, spec.key()), (spec, kept)))
    };
    DEVICES.into_iter().flat_map(of).collect()
}

/// Takes a step that concerns templates.
pub fn take(manager: &mut Manager, reference: &mut Reference, step: &Step, now: u64) {
    match step {
        Step::Keep {
            tenant,
            spec,
            on,
            parts,
        } => {
            let (device, tenant) = (DeviceId(*on), TenantId(*tenant));
            let freed = manager.keep(device, tenant, spec, *parts, now);
            assert!(freed.evicted.is_empty(), "a template costs no model");
            reference.freed(device, &freed);
        }
        Step::Fill(which) => {
            let names: Vec<_> = templates(manager).into_keys().collect();
            if !names.is_empty() {
                let (device, tenant, key) = *which.get(&names);
                fill(manager, reference, (device, tenant, key), now);
            }
        }
        _ => unreachable!("a step of clients"),
    }
}

fn fill(manager: &mut Manager, reference: &mut Reference, name: Name, now: u64) {
    let (device, tenant, key) = name;
    let before = format!("{manager:?}");
    match manager.fill(device, tenant, key, now) {
        Ok(filling) => {
            reference.freed(device, &filling.freed);
            for new in &filling.created {
                let chunk = reference.chunks.insert((device, tenant, new.id), new.bytes);
                assert_eq!(chunk, None);
            }
            for copy in &filling.copies {
                assert!(
                    reference.copying.insert((device, tenant, copy.object)),
                    "copied twice"
                );
            }
            let usage = manager.prefix_usage(device, tenant, key).unwrap();
            let copying: u64 = filling.copies.iter().map(|copy| copy.place.len).sum();
            assert!(usage.resident_bytes + copying <= usage.kept_bytes);
        }
        Err(refusal) => {
            assert_eq!(before, format!("{manager:?}"), "B2: {refusal}");
        }
    }
}

/// Kept prefixes before a step.
pub struct Kept(BTreeMap<Name, (ModelSpec, usize)>);

impl Kept {
    pub fn of(manager: &Manager) -> Self {
        Self(templates(manager))
    }

    /// Checks B9 and B10 after the step.
    pub fn agrees(&self, manager: &Manager, step: &Step) {
        let now = templates(manager);
        for device in DEVICES {
            counts_agree(manager, device);
        }
        for (name, (spec, before)) in &self.0 {
            let after = now.get(name).map_or(0, |(_, kept)| *kept);
            match step {
                Step::Keep { .. } => {}
                Step::Admit { tenant, .. } if after < *before => {
                    assert!(
                        idle_room(manager, name.0, TenantId(*tenant)).is_none(),
                        "B9: {spec:?} is shorter, and an idle model stays"
                    );
                }
                Step::Shrink(device, _) if after < *before => {
                    assert_eq!(name.0, DeviceId(*device));
                    assert!(idle_room(manager, name.0, name.1).is_none(), "B9");
                }
                _ => assert!(after >= *before, "B9: {step:?} took a kept prefix"),
            }
        }
    }
}

/// An idle model that could have left before a prefix.
fn idle_room(manager: &Manager, device: DeviceId, tenant: TenantId) -> Option<ModelKey> {
    let device = manager.device(device);
    let candidates = device.candidates(Some(tenant)).into_iter();
    let mut worth = candidates.filter(|victim| device.is_worth_evicting(*victim));
    worth.next().map(|victim| victim.model)
}

/// B10: each object knows the number of templates that keep it, and a template is no longer than
/// its model.
fn counts_agree(manager: &Manager, id: DeviceId) {
    let device = manager.device(id);
    for ((tenant, object), state) in &device.objects {
        let kept = device.kept_counts(*tenant).get(object).copied();
        assert_eq!(state.kept, kept.unwrap_or(0), "B10");
        assert!(
            !state.models.is_empty() || state.kept > 0 || state.copying,
            "nobody's"
        );
    }
    for (_, spec, kept) in manager.templates(id) {
        assert!(kept <= spec.parts().len());
    }
}

#[test]
fn a_prefix_survives_idle_models_and_yields_to_clients_from_its_end() {
    use crate::residency::{ClientId, Part};
    use tetris_store_layout::ObjectId;
    let part = |number: u64| Part {
        object: ObjectId::of(&number.to_le_bytes()),
        len: 512,
    };
    let model = |from: u64, to: u64| {
        let parts: Vec<_> = (from..to).map(part).collect();
        ModelSpec::try_new(&parts, &[]).unwrap()
    };
    let (device, tenant) = (DeviceId(0), TenantId(0));
    let mut manager = super::new_manager();
    let mut alone = Arena::new(config().arena);
    alone.place(&[(part(0).object, 512)], u64::MAX).unwrap();
    assert_eq!(alone.created_bytes(), 512, "one object for each chunk");
    let load = |manager: &mut Manager, client, spec: &ModelSpec, now| {
        let admission = manager.admit(tenant, ClientId(client), spec, Some(device), now);
        let admission = admission.unwrap();
        for copy in &admission.copies {
            manager.copied(device, tenant, &copy.object);
        }
        admission.copies.len()
    };
    // Eight objects fit. Of the first model four are kept.
    let first = model(0, 6);
    assert_eq!(load(&mut manager, 1, &first, 1), 6);
    assert_eq!(manager.keep(device, tenant, &first, 4, 1), Freed::default());
    manager.disconnect(ClientId(1), 2);
    assert_eq!(load(&mut manager, 2, &model(10, 14), 3), 4);
    let kept = |manager: &Manager| manager.prefix_usage(device, tenant, first.key()).unwrap();
    assert_eq!(
        kept(&manager).resident_bytes,
        4 * 512,
        "the suffix has left"
    );
    manager.disconnect(ClientId(2), 4);
    // A larger model takes two objects of the prefix, the last ones.
    assert_eq!(load(&mut manager, 3, &model(20, 26), 5), 6);
    assert_eq!(kept(&manager).resident_bytes, 2 * 512);
    assert!(manager.is_kept(device, tenant, &part(1).object));
    manager.disconnect(ClientId(3), 6);
    assert_eq!(
        load(&mut manager, 4, &first, 7),
        4,
        "only the rest is copied"
    );
}
