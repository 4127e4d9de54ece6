//! Namespaces on one node, each of which does all that it may: none takes another's guarantee.

use proptest::prelude::*;
use tetris_reclaimer_core::{
    ModelSnapshot, MountShares, MountSnapshot, ObjectSnapshot, Policy, RoomRequest, Snapshot,
    Space, State, StoreSnapshot, plan,
};

use crate::plan::generate::{NOW_MS, PAGE, model_id, object_id};

const CAPACITY: Space = Space {
    bytes: 1000 * PAGE,
    inodes: 800,
};
/// One less than room is kept back for by default: one more may always arrive.
const NAMESPACES: usize = 7;

/// A step of a namespace.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Its first pod comes.
    Arrive,
    /// A load of so many objects of so many pages each, which are mapped, declared warm, or neither.
    Load {
        namespace: usize,
        objects: u64,
        pages: u64,
        held: bool,
        warm: bool,
    },
    /// Its pods end.
    End { namespace: usize },
    /// Its pods map all that its store has, without asking anybody.
    MapAll { namespace: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let namespace = 0..NAMESPACES;
    let load = (
        namespace.clone(),
        1..300_u64,
        0..300_u64,
        any::<bool>(),
        any::<bool>(),
    );
    prop_oneof![
        1 => Just(Step::Arrive),
        8 => load.prop_map(|(namespace, objects, pages, held, warm)| Step::Load {
            namespace,
            objects,
            // Many small ones, or a few large ones.
            pages: pages / objects,
            held,
            warm,
        }),
        1 => namespace.clone().prop_map(|namespace| Step::End { namespace }),
        2 => namespace.prop_map(|namespace| Step::MapAll { namespace }),
    ]
}

struct Node {
    policy: Policy,
    stores: Vec<StoreSnapshot>,
    made: usize,
}

impl Node {
    fn new() -> Self {
        Self {
            policy: Policy::default(),
            stores: Vec::new(),
            made: 0,
        }
    }

    fn free(&self) -> Space {
        let used = self.stores.iter().map(StoreSnapshot::used);
        CAPACITY.beyond(used.fold(Space::default(), Space::plus))
    }

    fn mount(&self) -> MountSnapshot {
        let expected = self.policy.config().guaranteed_namespaces as usize;
        let free = self.free();
        MountSnapshot {
            capacity_bytes: CAPACITY.bytes,
            free_bytes: free.bytes,
            inodes: CAPACITY.inodes,
            free_inodes: free.inodes,
            arrivals: expected.saturating_sub(self.stores.len()).max(1) as u32,
            ..MountSnapshot::default()
        }
    }

    fn shares(&self) -> MountShares {
        MountShares::new(&self.policy, &self.mount(), &self.stores)
    }

    fn arrive(&mut self) -> usize {
        let number = self.stores.len();
        self.stores.push(StoreSnapshot {
            name: format!("namespace-{number}"),
            namespace: Some(format!("namespace-{number}")),
            ..StoreSnapshot::default()
        });
        number
    }

    /// Frees what a pass frees for a request, and returns true if there is room then.
    fn make_room(&mut self, store: usize, asked: Space) -> bool {
        let snapshot = Snapshot {
            mounts: vec![self.mount()],
            stores: self.stores.clone(),
            requests: vec![RoomRequest {
                store,
                bytes: asked.bytes,
                inodes: asked.inodes,
            }],
        };
        let state = State::default();
        let plan = plan(&snapshot, &self.policy, &state, NOW_MS, usize::MAX).unwrap();
        for action in &plan.actions {
            let freed = &mut self.stores[action.store];
            freed.objects.retain(|object| object.id != action.id);
            // The indices of the models are made anew.
            freed.models.clear();
        }
        for store in &mut self.stores {
            let warm = store.objects.iter().zip(0..);
            let warm = warm.filter(|(object, _)| object.last_use_ms > 0);
            store.models = vec![ModelSnapshot {
                id: model_id(0),
                objects: warm.map(|(_, index)| index).collect(),
                total_bytes: PAGE,
                last_use_ms: 0,
                reload_ms: 1,
                warm: true,
            }];
        }
        let used: Vec<_> = self.stores.iter().map(StoreSnapshot::used).collect();
        let missing = self.shares().missing(store, &used, asked, self.free());
        missing.all().is_nothing()
    }

    /// A load as the daemon serves it: nothing is published unless there is room.
    fn load(&mut self, store: usize, objects: u64, bytes: u64, held: bool, warm: bool) -> bool {
        let asked = Space {
            bytes: objects * bytes,
            inodes: objects,
        };
        if !self.make_room(store, asked) {
            return false;
        }
        for _ in 0..objects {
            self.made += 1;
            self.stores[store].objects.push(ObjectSnapshot {
                id: object_id(self.made),
                len_bytes: bytes,
                allocated_bytes: bytes,
                published_ms: 0,
                // Marks the objects that are declared warm.
                last_use_ms: u64::from(warm),
                held,
            });
        }
        true
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Arrive if self.stores.len() < NAMESPACES => {
                self.arrive();
            }
            Step::Load {
                namespace,
                objects,
                pages,
                held,
                warm,
            } if namespace < self.stores.len() => {
                self.load(namespace, objects, pages * PAGE, held, warm);
            }
            Step::End { namespace } if namespace < self.stores.len() => {
                for object in &mut self.stores[namespace].objects {
                    object.held = false;
                    object.last_use_ms = 0;
                }
                self.stores[namespace].models.clear();
            }
            Step::MapAll { namespace } if namespace < self.stores.len() => {
                let objects = &mut self.stores[namespace].objects;
                for object in &mut *objects {
                    object.held = true;
                }
            }
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_namespaces_guarantee_is_taken_whatever_the_others_hold_and_declare(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut node = Node::new();
        node.arrive();
        for step in steps {
            node.step(step);
            let shares = node.shares();
            for (at, store) in node.stores.iter().enumerate() {
                let used = store.used();
                prop_assert!(used.beyond(shares.of(at).limit).is_nothing());
            }
            let used = node.stores.iter().map(StoreSnapshot::used);
            let unused = shares.unused(used);
            let all_used = node.stores.iter().map(StoreSnapshot::used);
            let all_used = all_used.fold(Space::default(), Space::plus);
            // Even if all that is there is mapped, guarantees have their room.
            prop_assert!(
                all_used.plus(unused).beyond(CAPACITY).is_nothing(),
                "{all_used:?} {unused:?}"
            );
        }
        // The others map all that they have, and then each takes what it is guaranteed.
        for store in &mut node.stores {
            store.objects.iter_mut().for_each(|object| object.held = true);
        }
        while node.stores.len() < NAMESPACES {
            node.arrive();
        }
        for at in 0..NAMESPACES {
            let used = node.stores[at].used();
            let rest = node.shares().of(at).guaranteed.beyond(used);
            prop_assert!(node.make_room(at, rest), "{at}: {rest:?}");
            node.stores[at].record_bytes += rest.bytes;
            node.stores[at].other_inodes += rest.inodes;
        }
    }
}

#[test]
fn a_namespace_that_floods_with_small_files_evicts_its_own_and_no_others() {
    let mut node = Node::new();
    let (hostile, victim) = (node.arrive(), node.arrive());
    assert!(node.load(victim, 10, 20 * PAGE, false, false));
    let before = node.stores[victim].objects.clone();
    let mut admitted = 0;
    for _ in 0..200 {
        admitted += usize::from(node.load(hostile, 50, 0, false, false));
    }
    assert_eq!(admitted, 200, "it evicts its own");
    let limit = node.shares().of(hostile).limit.inodes;
    assert!(node.stores[hostile].objects.len() as u64 <= limit);
    assert_eq!(node.stores[victim].objects, before);
    // Held, they fill its limit and no more.
    while node.load(hostile, 50, 0, true, false) {}
    let held_count = node.stores[hostile]
        .objects
        .iter()
        .filter(|o| o.held)
        .count();
    assert!(
        held_count as u64 > limit - 100 && held_count as u64 <= limit,
        "{held_count}"
    );
    assert_eq!(node.stores[victim].objects, before);
    let arrived = node.arrive();
    let guaranteed = node.shares().of(arrived).guaranteed;
    assert!(guaranteed.inodes > 0 && node.make_room(arrived, guaranteed));
}

#[test]
fn stores_of_the_configuration_may_take_everything() {
    // The administrator who lists a store states in its policy what it may have.
    let mut node = Node::new();
    let (hostile, victim) = (node.arrive(), node.arrive());
    for store in &mut node.stores {
        store.namespace = None;
    }
    let mut mount = node.mount();
    mount.arrivals = 0;
    let shares = MountShares::new(&node.policy, &mount, &node.stores);
    let nothing = [Space::default(); 2];
    assert!(
        shares
            .missing(hostile, &nothing, CAPACITY, CAPACITY)
            .all()
            .is_nothing()
    );
    let full = [CAPACITY, Space::default()];
    let file = Space {
        bytes: PAGE,
        inodes: 1,
    };
    let missing = shares.missing(victim, &full, file, Space::default());
    assert_eq!(missing.all(), file);
}
