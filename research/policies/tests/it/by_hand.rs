//! Decisions of the policies in situations made by hand.

use tetris_gpu_policies::{LALB, LocalityAware, TorporPrototype, TorporRules};
use tetris_scaler_dispatch::Outcome;
use tetris_scaler_dispatch::gpu::{GpuId, ModelId, Source};
use tetris_test_support::gpu_world::{MS, World, given, gpu_of, model, topology, warm};

#[test]
fn a_request_goes_to_the_idle_gpu_that_has_its_model() {
    let mut world = warm(LALB, 2);
    let on = [0, 1].map(|number| gpu_of(&world, number));
    world.offer(1, None);
    world.offer(0, None);
    assert_eq!(given(&mut world), [(0, on[0], true), (1, on[1], true)]);
}

#[test]
fn a_request_waits_at_a_busy_gpu_if_that_takes_less_time_than_a_load() {
    let mut world = warm(LALB, 2);
    let on = gpu_of(&world, 0);
    for _ in 0..3 {
        world.offer(0, None);
    }
    // A load takes 400 ms, a run 10 ms.
    assert_eq!(given(&mut world), [(0, on, true)]);
    assert_eq!(
        (world.scheduler.unbound(), world.scheduler.waiting()),
        (0, 2)
    );
    world.now_us += 10 * MS;
    world.complete(GpuId(on), Outcome::Served);
    assert_eq!(given(&mut world), [(0, on, true)]);
}

#[test]
fn a_load_is_taken_where_the_busy_gpu_has_a_longer_queue() {
    let mut world = warm(LALB, 2);
    let on = gpu_of(&world, 0);
    for _ in 0..60 {
        world.offer(0, None);
    }
    let both = given(&mut world);
    assert_eq!(both.len(), 2);
    assert!(
        both.contains(&(0, on, true)) && both.contains(&(0, 1 - on, false)),
        "{both:?}"
    );
    assert_eq!(world.scheduler.replicas(ModelId(0)), 2);
}

#[test]
fn a_later_hit_overtakes_up_to_the_limit() {
    for limit in [0, 2] {
        let policy = LocalityAware {
            overtaking_limit: limit,
        };
        let mut world = warm(policy, 1);
        world.offer(0, None);
        assert_eq!(given(&mut world), [(0, 0, true)]);
        let missing = world.offer(5, None);
        for _ in 0..4 {
            world.offer(0, None);
        }
        let mut hits = 0;
        loop {
            world.now_us += 10 * MS;
            world.complete(GpuId(0), Outcome::Served);
            let next = world.dispatch();
            if next[0].request.id == missing {
                break;
            }
            hits += 1;
        }
        assert_eq!(hits, limit);
    }
}

#[test]
fn requests_of_a_lost_gpu_go_to_another() {
    let mut world = warm(LALB, 2);
    let on = gpu_of(&world, 0);
    for _ in 0..3 {
        world.offer(0, None);
    }
    world.dispatch();
    world.lose(GpuId(on));
    assert_eq!(given(&mut world), [(0, 1 - on, false)]);
    assert_eq!(world.waiting.len(), 2);
}

const TORPOR: TorporRules = TorporRules {
    by_required_count: true,
    avoids_interference: true,
    evicts_light_first: true,
    light_permille: 10_000,
    rejects_late: false,
};

#[test]
fn a_model_on_a_busy_gpu_is_copied_over_the_fastest_link() {
    let mut world = warm(TORPOR, 4);
    let on = gpu_of(&world, 0);
    world.offer(0, None);
    world.offer(0, None);
    world.dispatch();
    let copy = world
        .running
        .values()
        .find_map(|entry| entry.load.clone().map(|load| (entry.gpu.0, load)));
    let (to, load) = copy.unwrap();
    assert_eq!((to / 2, load.source), (on / 2, Source::Gpu(GpuId(on))));
    // The memory is full: the model moves.
    world.loaded(GpuId(to));
    world.complete(GpuId(on), Outcome::Served);
    world.complete(GpuId(to), Outcome::Served);
    assert!(world.scheduler.replicas(ModelId(0)) <= 2);
}

#[test]
fn a_full_node_has_one_replica_after_a_move() {
    let mut world = warm(TORPOR, 2);
    let on = gpu_of(&world, 0);
    world.offer(0, None);
    world.offer(0, None);
    world.dispatch();
    world.now_us += 10 * MS;
    world.complete(GpuId(on), Outcome::Served);
    assert_eq!(world.scheduler.replicas(ModelId(0)), 2);
    world.loaded(GpuId(1 - on));
    assert_eq!(world.scheduler.replicas(ModelId(0)), 1);
}

#[test]
fn a_load_from_the_host_avoids_a_neighbor_that_loads() {
    let models = (0..6).map(|number| model(&[(number, 400)])).collect();
    let mut world = World::new(TORPOR, topology(4, 500), models);
    for number in 0..4 {
        world.offer(number, None);
    }
    let switches: Vec<u32> = world
        .dispatch()
        .iter()
        .map(|dispatch| dispatch.gpu.0 / 2)
        .collect();
    assert_ne!(switches[0], switches[1]);
}

#[test]
fn light_models_are_evicted_before_heavy_ones() {
    for (evicts_light_first, gone) in [(true, 1), (false, 0)] {
        // A transfer of 400 MB takes 400 ms, of 50 MB 50 ms: light, by the setting, up to 100 ms.
        let models = vec![model(&[(0, 400)]), model(&[(1, 50)]), model(&[(2, 50)])];
        let rules = TorporRules {
            evicts_light_first,
            ..TORPOR
        };
        let mut world = World::new(rules, topology(1, 450), models);
        for number in 0..2 {
            world.offer(number, None);
            world.dispatch();
            world.now_us += 500 * MS;
            world.complete(GpuId(0), Outcome::Served);
        }
        world.offer(2, None);
        let given = world.dispatch();
        let evicted = &given[0].load.as_ref().unwrap().evicted;
        assert_eq!(evicted[..], [ModelId(gone)]);
    }
}

#[test]
fn functions_far_from_their_slo_wait() {
    let models = (0..3).map(|number| model(&[(number, 100)])).collect();
    let mut world = World::new(TORPOR, topology(1, 500), models);
    for _ in 0..60 {
        world.offer(0, Some(0));
        world.dispatch();
        world.now_us += 10 * MS;
        world.complete(GpuId(0), Outcome::Served);
    }
    world.offer(2, None);
    world.dispatch();
    world.offer(0, Some(100 * MS));
    let nearer = world.offer(1, Some(100 * MS));
    world.complete(GpuId(0), Outcome::Served);
    assert_eq!(world.dispatch()[0].request.id, nearer);
}

#[test]
fn a_move_names_the_model_that_left_its_origin() {
    let rules = TorporRules::default();
    let models = (0..4).map(|number| model(&[(number, 400)])).collect();
    let mut world = World::new(rules, topology(2, 500), models);
    world.observe(GpuId(0), &[0]);
    world.observe(GpuId(1), &[1]);
    for _ in 0..2 {
        world.offer(0, None);
    }
    let given = world.dispatch();
    let load = given[1].load.as_ref().unwrap();
    assert_eq!(load.source, Source::Gpu(GpuId(0)));
    world.complete(GpuId(0), Outcome::Served);
    assert_eq!(
        world.scheduler.loaded(GpuId(1)),
        Some((GpuId(0), ModelId(0)))
    );
    assert_eq!(world.scheduler.loaded(GpuId(1)), None);
}

fn prototype() -> TorporPrototype {
    TorporPrototype::new(TORPOR)
}

#[test]
fn the_prototype_executes_one_request_of_a_function_at_a_time() {
    let mut world = warm(prototype(), 2);
    let on = gpu_of(&world, 0);
    world.offer(0, None);
    world.offer(0, None);
    assert_eq!(given(&mut world), [(0, on, true)]);
    world.now_us += 10 * MS;
    world.complete(GpuId(on), Outcome::Served);
    assert_eq!(given(&mut world), [(0, on, true)]);
    // In the order of arrival both run, on two GPUs.
    let rules = TorporRules {
        by_required_count: false,
        ..TORPOR
    };
    let mut world = warm(TorporPrototype::new(rules), 2);
    world.offer(0, None);
    world.offer(0, None);
    assert_eq!(given(&mut world).len(), 2);
}

#[test]
fn the_prototype_serves_the_function_with_the_greatest_effort_first_within_its_budget() {
    let mut world = warm(prototype(), 1);
    // The last request of function 3 is late.
    world.offer(3, Some(0));
    world.dispatch();
    world.now_us += 500 * MS;
    world.complete(GpuId(0), Outcome::Served);
    world.offer(4, None);
    world.dispatch();
    world.offer(0, None);
    let late = world.offer(3, None);
    world.now_us += 500 * MS;
    world.complete(GpuId(0), Outcome::Served);
    assert_eq!(world.dispatch()[0].request.id, late);
}

#[test]
fn the_prototype_evicts_replicas_and_light_models_by_their_last_use() {
    // By the setting, models of up to 100 MB are light.
    let models = (0..).zip([300, 50, 50, 300]);
    let models = models.map(|(number, mb)| model(&[(number, mb)])).collect();
    let mut world = World::new(prototype(), topology(1, 410), models);
    for number in [2, 1, 0, 2] {
        world.offer(number, None);
        world.dispatch();
        world.now_us += 500 * MS;
        world.complete(GpuId(0), Outcome::Served);
    }
    world.offer(3, None);
    let evicted = world.dispatch()[0].load.clone().unwrap().evicted;
    assert_eq!(evicted[..], [ModelId(1), ModelId(2), ModelId(0)]);
}

#[test]
fn the_prototype_leaves_a_replica_where_it_copies_from() {
    let rules = TorporRules {
        by_required_count: false,
        ..TORPOR
    };
    let mut world = warm(TorporPrototype::new(rules), 2);
    let on = gpu_of(&world, 0);
    world.offer(0, None);
    world.offer(0, None);
    world.dispatch();
    world.loaded(GpuId(1 - on));
    world.now_us += 10 * MS;
    world.complete(GpuId(on), Outcome::Served);
    assert_eq!(world.scheduler.replicas(ModelId(0)), 2);
}
