//! Rules that hold for every store.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::sample::Index;
use tetris_reclaimer_core::{Goal, Plan, Reason, RoomRequest, Snapshot, State, plan};
use tetris_store_layout::ObjectId;

use crate::plan::generate::{Case, NOW_MS, PAGE, case};
use crate::plan::naive;

fn planned(case: &Case) -> Plan {
    plan(
        &case.snapshot,
        &case.policy,
        &case.state,
        NOW_MS,
        usize::MAX,
    )
    .unwrap()
}

/// Store names, identifiers and reasons: the parts that do not depend on the order of the input.
fn names(case: &Case, plan: &Plan) -> Vec<(String, ObjectId, Reason)> {
    let name = |store: usize| case.snapshot.stores[store].name.clone();
    plan.actions
        .iter()
        .map(|action| (name(action.store), action.id, action.reason))
        .collect()
}

fn last_use(case: &Case, store: usize, object: u32) -> u64 {
    let store = &case.snapshot.stores[store];
    let this = store.objects[object as usize];
    let models = store.models.iter();
    let models = models
        .filter(|model| model.objects.contains(&object))
        .map(|model| model.last_use_ms);
    models.fold(this.published_ms.max(this.last_use_ms), u64::max)
}

/// The snapshot after the execution of a plan.
fn applied(snapshot: &Snapshot, plan: &Plan) -> Snapshot {
    let mut after = snapshot.clone();
    let gone: BTreeSet<(usize, u32)> = plan
        .actions
        .iter()
        .map(|action| (action.store, action.object))
        .collect();
    for action in &plan.actions {
        let mount = snapshot.stores[action.store].mount;
        after.mounts[mount].free_bytes += action.bytes;
    }
    for (index, store) in after.stores.iter_mut().enumerate() {
        let kept: Vec<u32> = (0..store.objects.len() as u32)
            .filter(|object| !gone.contains(&(index, *object)))
            .collect();
        let place: BTreeMap<u32, u32> = kept.iter().copied().zip(0..).collect();
        store.objects = kept
            .iter()
            .map(|object| store.objects[*object as usize])
            .collect();
        for model in &mut store.models {
            model.objects = model
                .objects
                .iter()
                .filter_map(|object| place.get(object).copied())
                .collect();
        }
    }
    after
}

fn shuffled<T>(items: &mut [T], picks: &[Index]) {
    for at in (1..items.len()).rev() {
        items.swap(at, picks[at % picks.len()].index(at + 1));
    }
}

/// The same stores, listed in another order.
fn reordered(case: &Case, picks: &[Index]) -> Case {
    let mut other = case.clone();
    for store in &mut other.snapshot.stores {
        let mut order: Vec<u32> = (0..store.objects.len() as u32).collect();
        shuffled(&mut order, picks);
        let place: BTreeMap<u32, u32> = order.iter().copied().zip(0..).collect();
        store.objects = order
            .iter()
            .map(|object| store.objects[*object as usize])
            .collect();
        for model in &mut store.models {
            model
                .objects
                .iter_mut()
                .for_each(|object| *object = place[object]);
            model.objects.reverse();
        }
        shuffled(&mut store.models, picks);
    }
    let mut order: Vec<usize> = (0..other.snapshot.stores.len()).collect();
    shuffled(&mut order, picks);
    other.snapshot.stores = order
        .iter()
        .map(|store| other.snapshot.stores[*store].clone())
        .collect();
    for ask in &mut other.snapshot.requests {
        ask.store = order.iter().position(|store| *store == ask.store).unwrap();
    }
    other.snapshot.requests.reverse();
    other
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn the_plan_is_that_of_the_slow_planner(case in case(3, 2)) {
        let actions = planned(&case).actions;
        let freed: naive::Freed = actions
            .iter()
            .map(|action| (action.store, action.object, action.reason))
            .collect();
        prop_assert_eq!(freed, naive::plan(&case));
    }

    #[test]
    fn nothing_held_or_declared_warm_is_freed_and_nothing_twice(case in case(3, 2)) {
        let mut seen = BTreeSet::new();
        for action in planned(&case).actions {
            let store = &case.snapshot.stores[action.store];
            let object = store.objects[action.object as usize];
            prop_assert_eq!(object.id, action.id);
            prop_assert_eq!(object.allocated_bytes, action.bytes);
            prop_assert!(!object.held);
            let warm = |model: &tetris_reclaimer_core::ModelSnapshot| {
                model.warm && model.objects.contains(&action.object)
            };
            prop_assert!(!store.models.iter().any(warm));
            prop_assert!(seen.insert((action.store, action.object)));
        }
    }

    #[test]
    fn only_a_load_that_waits_cuts_the_keep_alive_window_short(case in case(3, 2)) {
        for action in planned(&case).actions {
            let policy = case.policy.of(&case.snapshot.stores[action.store].name);
            let idle_ms = NOW_MS - last_use(&case, action.store, action.object);
            prop_assert!(
                action.reason == Reason::Pressure || idle_ms >= policy.keep_alive_secs * 1000
            );
        }
    }

    #[test]
    fn the_low_watermark_is_reached_or_the_shortfall_says_by_how_much_not(case in case(3, 0)) {
        let plan = planned(&case);
        let after = applied(&case.snapshot, &plan);
        let config = case.policy.config();
        for (index, mount) in after.mounts.iter().enumerate() {
            let used = mount.capacity_bytes - mount.free_bytes;
            let high = mount.capacity_bytes * u64::from(config.high_watermark_percent) / 100;
            let low = mount.capacity_bytes * u64::from(config.low_watermark_percent) / 100;
            let told = plan.shortfalls.iter().find(|shortfall| {
                shortfall.mount == index && shortfall.goal == Goal::LowWatermark
            });
            match told {
                Some(told) => {
                    prop_assert_eq!(told.missing_bytes, used - low);
                    let on_it = after.stores.iter().filter(|store| store.mount == index);
                    // Of objects: records are not what a plan frees.
                    let left: u64 = on_it
                        .map(|store| store.used_bytes() - store.record_bytes)
                        .sum();
                    let kept = told.kept;
                    prop_assert_eq!(
                        kept.held_bytes
                            + kept.protected_bytes
                            + kept.young_bytes
                            + kept.guaranteed_bytes,
                        left
                    );
                }
                None => prop_assert!(used <= high),
            }
        }
    }

    #[test]
    fn the_order_of_the_input_does_not_matter(
        case in case(3, 2),
        picks in prop::collection::vec(any::<Index>(), 8),
    ) {
        // The steps go mount by mount, in the caller's order.
        let other = reordered(&case, &picks);
        prop_assert_eq!(names(&case, &planned(&case)), names(&other, &planned(&other)));
    }

    #[test]
    fn no_store_loses_what_it_is_guaranteed_to_the_need_of_another(case in case(3, 2)) {
        let plan = planned(&case);
        let after = applied(&case.snapshot, &plan);
        let asking: BTreeSet<usize> =
            case.snapshot.requests.iter().map(|ask| ask.store).collect();
        for (index, store) in after.stores.iter().enumerate() {
            let policy = case.policy.of(&store.name);
            let bytes: u64 = plan
                .actions
                .iter()
                .filter(|action| action.store == index)
                .filter(|action| {
                    matches!(action.reason, Reason::KeepAliveExpired | Reason::OverQuota)
                })
                .map(|action| action.bytes)
                .sum();
            let before = case.snapshot.stores[index].used_bytes();
            prop_assert!(
                asking.contains(&index)
                    || store.used_bytes() + bytes >= policy.guaranteed_bytes.min(before)
            );
        }
    }

    #[test]
    fn more_need_frees_a_superset(case in case(1, 0), pages in 0_u64..40, more in 0_u64..40) {
        let freed = |pages: u64| {
            let mut case = case.clone();
            case.snapshot.requests = vec![RoomRequest { store: 0, bytes: pages * PAGE, inodes: 0 }];
            let plan = planned(&case);
            let pressed = plan.actions.iter().filter(|action| {
                matches!(action.reason, Reason::Pressure | Reason::KeepAliveExpired)
            });
            pressed.map(|action| action.object).collect::<BTreeSet<_>>()
        };
        prop_assert!(freed(pages).is_subset(&freed(pages + more)));
    }

    #[test]
    fn after_a_plan_is_carried_out_nothing_is_left_to_do(case in case(3, 1)) {
        let after = Case {
            snapshot: applied(&case.snapshot, &planned(&case)),
            ..case.clone()
        };
        prop_assert_eq!(names(&after, &planned(&after)), Vec::new());
    }

    #[test]
    fn a_bound_cuts_the_plan_short_and_says_so(case in case(3, 2), most in 0_usize..10) {
        let all = planned(&case);
        let cut =
            plan(&case.snapshot, &case.policy, &case.state, NOW_MS, most).unwrap();
        prop_assert_eq!(cut.cut_short, all.actions.len() > most);
        let most = most.min(all.actions.len());
        prop_assert_eq!(&cut.actions[..], &all.actions[..most]);
    }

    #[test]
    fn model_changes_are_what_the_actions_do(case in case(3, 2)) {
        let plan = planned(&case);
        let after = applied(&case.snapshot, &plan);
        for (index, store) in case.snapshot.stores.iter().enumerate() {
            for (number, model) in store.models.iter().enumerate() {
                let resident = |snapshot: &Snapshot| {
                    let store = &snapshot.stores[index];
                    let objects: BTreeSet<u32> =
                        store.models[number].objects.iter().copied().collect();
                    let bytes = objects.iter().map(|o| store.objects[*o as usize].len_bytes);
                    (objects.len(), bytes.sum::<u64>())
                };
                let (before, now) = (resident(&case.snapshot), resident(&after));
                let told = plan
                    .models
                    .iter()
                    .find(|change| change.store == index && change.id == model.id);
                prop_assert_eq!(told.is_some(), before.0 != now.0);
                if let Some(told) = told {
                    prop_assert_eq!((told.before_bytes, told.after_bytes), (before.1, now.1));
                    prop_assert_eq!(told.gone, now.0 == 0);
                }
            }
        }
    }

    #[test]
    fn learned_state_survives_being_kept(case in case(3, 0)) {
        let kept = case.state.encode().unwrap();
        let back = State::decode(&kept).unwrap();
        prop_assert_eq!(&back, &case.state);
        prop_assert_eq!(back.encode().unwrap(), kept);
    }
}
