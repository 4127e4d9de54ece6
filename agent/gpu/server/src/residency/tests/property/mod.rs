//! The manager against a reference that records only the manager's answers.

mod reference;
mod templates;

use proptest::prelude::*;
use tetris_store_layout::ObjectId;

use crate::arena::{Arena, ArenaConfig};
use crate::residency::*;
use reference::Reference;

const GRANULE: u64 = 64;
const CHUNK: u64 = 512;
const CAPACITY: u64 = 4096;
const QUOTA: u64 = 2560;
const LIGHT: u64 = 300;

fn config() -> Config {
    Config {
        arena: ArenaConfig::try_new(GRANULE, CHUNK, 8, 12).unwrap(),
        light_bytes: LIGHT,
    }
}

/// A model of some of 24 objects. The number of an object gives its length, so models share
/// objects.
fn model() -> impl Strategy<Value = ModelSpec> {
    let part = |number: u64| Part {
        object: ObjectId::of(&number.to_le_bytes()),
        len: [5, 40, 64, 130, 300, 700][number as usize % 6] + number,
    };
    let parts = prop::collection::btree_set((0u64..24).prop_map(move |number| number), 1..6);
    parts.prop_map(move |numbers| {
        let parts: Vec<_> = numbers.into_iter().map(part).collect();
        ModelSpec::try_new(&parts, &[]).unwrap()
    })
}

#[derive(Debug, Clone)]
enum Step {
    Admit {
        tenant: u32,
        client: u64,
        spec: ModelSpec,
        on: Option<u32>,
        copied: bool,
    },
    Release(prop::sample::Index),
    Disconnect(u64),
    Copied(prop::sample::Index),
    Failed(prop::sample::Index),
    Shrink(u32, u64),
    Keep {
        tenant: u32,
        spec: ModelSpec,
        on: u32,
        parts: usize,
    },
    Fill(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let on = prop_oneof![2 => Just(None), 1 => (0u32..2).prop_map(Some)];
    let admit = (0u32..2, 0u64..5, model(), on, any::<bool>()).prop_map(
        |(tenant, client, spec, on, copied)| Step::Admit {
            tenant,
            client,
            spec,
            on,
            copied,
        },
    );
    let keep =
        (0u32..2, model(), 0u32..2, 0usize..7).prop_map(|(tenant, spec, on, parts)| Step::Keep {
            tenant,
            spec,
            on,
            parts,
        });
    let step = prop_oneof![
        6 => admit,
        3 => any::<prop::sample::Index>().prop_map(Step::Release),
        2 => (0u64..5).prop_map(Step::Disconnect),
        3 => any::<prop::sample::Index>().prop_map(Step::Copied),
        1 => any::<prop::sample::Index>().prop_map(Step::Failed),
        1 => (0u32..2, 0u64..CAPACITY).prop_map(|(device, bytes)| Step::Shrink(device, bytes)),
        2 => keep,
        2 => any::<prop::sample::Index>().prop_map(Step::Fill),
    ];
    prop::collection::vec(step, 1..150)
}

fn new_manager() -> Manager {
    let mut manager = Manager::new(config());
    manager.set_capacity(DeviceId(0), CAPACITY);
    manager.set_capacity(DeviceId(1), CAPACITY);
    manager.set_quota(TenantId(1), QUOTA);
    manager
}

fn admit(manager: &mut Manager, reference: &mut Reference, step: &Step, now: u64) {
    let Step::Admit {
        tenant,
        client,
        spec,
        on,
        copied,
    } = step
    else {
        return;
    };
    let (tenant, client, on) = (TenantId(*tenant), ClientId(*client), on.map(DeviceId));
    let before = format!("{manager:?}");
    match manager.admit(tenant, client, spec, on, now) {
        Ok(admission) => {
            assert!(on.is_none_or(|on| on == admission.device));
            reference.admitted(tenant, client, spec, &admission, now);
            for copy in admission.copies.iter().filter(|_| *copied) {
                let freed = manager
                    .copied(admission.device, tenant, &copy.object)
                    .unwrap();
                assert_eq!(freed, Freed::default(), "a client holds it");
                reference
                    .copying
                    .remove(&(admission.device, tenant, copy.object));
            }
        }
        Err(refusal) => {
            assert_eq!(before, format!("{manager:?}"), "B2");
            assert!(
                !could_be_admitted(reference, tenant, spec, on),
                "refused for no reason: {refusal}"
            );
        }
    }
}

/// Returns true if the model fits and nothing is in use on a device that may take it.
fn could_be_admitted(
    reference: &Reference,
    tenant: TenantId,
    spec: &ModelSpec,
    on: Option<DeviceId>,
) -> bool {
    let quota = if tenant == TenantId(1) {
        QUOTA
    } else {
        CAPACITY
    };
    let all: Vec<_> = spec
        .parts()
        .iter()
        .map(|part| (part.object, part.len))
        .collect();
    let mut alone = Arena::new(config().arena);
    alone.place(&all, u64::MAX).unwrap();
    let busy = |device| {
        reference.held.keys().any(|(_, held)| held.0 == device)
            || reference.copying.iter().any(|copying| copying.0 == device)
    };
    let mut devices = [DeviceId(0), DeviceId(1)]
        .into_iter()
        .filter(|id| on.is_none_or(|on| on == *id));
    alone.created_bytes() <= quota && devices.any(|device| !busy(device))
}

/// Ends a copy, successfully or not.
fn end_copy(
    manager: &mut Manager,
    reference: &mut Reference,
    copy: (DeviceId, TenantId, ObjectId),
    fine: bool,
    now: u64,
) {
    let (device, tenant, object) = copy;
    reference.copying.remove(&copy);
    if fine {
        let freed = manager.copied(device, tenant, &object).unwrap();
        reference.freed(device, &freed);
        return;
    }
    let failed = manager.failed(device, tenant, &[object], now);
    for (client, key) in &failed.clients {
        reference.let_go(*client, (device, tenant, *key), now, true);
    }
    let misses = reference.held.iter().any(|((_, held), (_, places))| {
        (held.0, held.1) == (device, tenant) && places.iter().any(|(id, _)| *id == object)
    });
    assert!(!misses, "a client holds a failed model, and was not told");
    reference.freed(device, &failed.freed);
}

fn take(manager: &mut Manager, reference: &mut Reference, step: &Step, now: u64) {
    match step {
        Step::Admit { .. } => admit(manager, reference, step, now),
        Step::Release(which) => {
            let all: Vec<_> = reference.held.keys().copied().collect();
            if !all.is_empty() {
                let (client, model) = *which.get(&all);
                let (device, tenant, key) = model;
                reference.let_go(client, model, now, false);
                let freed = manager.release(device, tenant, client, key, now).unwrap();
                reference.freed(device, &freed);
            }
        }
        Step::Disconnect(client) => {
            let client = ClientId(*client);
            let models: Vec<_> = reference
                .held
                .keys()
                .copied()
                .filter(|(who, _)| *who == client)
                .collect();
            for (_, model) in models {
                reference.let_go(client, model, now, true);
            }
            for (device, freed) in manager.disconnect(client, now) {
                reference.freed(device, &freed);
            }
        }
        Step::Copied(which) | Step::Failed(which) => {
            let copying: Vec<_> = reference.copying.iter().copied().collect();
            if !copying.is_empty() {
                let fine = matches!(step, Step::Copied(_));
                end_copy(manager, reference, *which.get(&copying), fine, now);
            }
        }
        Step::Shrink(device, bytes) => {
            let freed = manager.shrink(DeviceId(*device), *bytes);
            reference.freed(DeviceId(*device), &freed);
        }
        Step::Keep { .. } | Step::Fill(_) => templates::take(manager, reference, step, now),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_manager_keeps_its_guarantees(steps in steps()) {
        let mut manager = new_manager();
        let mut reference = Reference::default();
        for (now, step) in (1..).zip(&steps) {
            let before = templates::Kept::of(&manager);
            take(&mut manager, &mut reference, step, now);
            reference.agrees(&manager);
            before.agrees(&manager, step);
        }
        // When all clients have disconnected and every copy has ended, everything can leave.
        for client in 0..5 {
            take(&mut manager, &mut reference, &Step::Disconnect(client), 1000);
        }
        for (device, tenant, object) in std::mem::take(&mut reference.copying) {
            let freed = manager.copied(device, tenant, &object).unwrap();
            reference.freed(device, &freed);
        }
        for device in [DeviceId(0), DeviceId(1)] {
            let freed = manager.shrink(device, 0);
            reference.freed(device, &freed);
            let usage = manager.usage(device).unwrap();
            prop_assert_eq!((usage.created_bytes, usage.models, usage.held_bytes), (0, 0, 0));
        }
        prop_assert!(reference.chunks.is_empty(), "leak");
    }
}
