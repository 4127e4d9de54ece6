//! Several gateways before the same instances.

use crate::world::{World, capacity, rules};

#[test]
fn gateways_together_take_an_instances_room_and_no_more_than_one_request_beyond_for_each() {
    for gateways in 1..=4_u32 {
        let mut taken = 0;
        for _ in 0..gateways {
            let mut rules = rules(1_000);
            rules.gateways = gateways;
            let mut world = World::new(rules);
            world.add(1, capacity(1, 6, 100));
            for _ in 0..10 {
                world.offer(None).unwrap();
            }
            taken += world.dispatch().len();
        }
        assert!(
            (6..6 + gateways as usize).contains(&taken),
            "{gateways} gateways: {taken}"
        );
    }
}
