//! Decisions of the policies in situations made by hand.

use tetris_scaler_dispatch::Outcome;
use tetris_scaler_dispatch::gpu::{
    GpuId, GpuPolicy, GpuRejection, GpuRequest, GpuScheduler, ModelId, SharingRules, Source,
    TorporRules,
};

use super::world::{MS, World, model, topology};

/// Serves one request of each model, so that model `n` is on GPU `n`.
fn warm(policy: GpuPolicy, gpus: u32) -> World {
    let models = (0..6).map(|number| model(&[(number, 400)])).collect();
    let mut world = World::new(policy, topology(gpus, 500), models);
    for number in 0..gpus {
        world.offer(number, None);
    }
    for given in world.dispatch() {
        assert_eq!(given.load.map(|load| load.source), Some(Source::Host));
    }
    world.now_us += 1_000 * MS;
    for gpu in 0..gpus {
        world.complete(GpuId(gpu), Outcome::Served);
    }
    world
}

fn given(world: &mut World) -> Vec<(u32, u32, bool)> {
    let given = world.dispatch().into_iter();
    let mut given: Vec<_> = given
        .map(|one| (one.request.model.0, one.gpu.0, one.load.is_none()))
        .collect();
    given.sort_unstable();
    given
}

fn gpu_of(world: &World, model: u32) -> u32 {
    let mut all = world.topology.ids();
    let found = all.find(|&gpu| world.scheduler.resident(gpu).any(|id| id == ModelId(model)));
    found.unwrap().0
}

#[test]
fn load_balancing_ignores_where_models_are() {
    let mut world = warm(GpuPolicy::LoadBalancing, 2);
    world.offer(1, None);
    world.offer(0, None);
    assert_eq!(given(&mut world), [(0, 1, false), (1, 0, false)]);
}

#[test]
fn a_request_goes_to_the_idle_gpu_that_has_its_model() {
    let mut world = warm(GpuPolicy::LALB, 2);
    let on = [0, 1].map(|number| gpu_of(&world, number));
    world.offer(1, None);
    world.offer(0, None);
    assert_eq!(given(&mut world), [(0, on[0], true), (1, on[1], true)]);
}

#[test]
fn a_request_waits_at_a_busy_gpu_if_that_takes_less_time_than_a_load() {
    let mut world = warm(GpuPolicy::LALB, 2);
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
    let mut world = warm(GpuPolicy::LALB, 2);
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
        let policy = GpuPolicy::LocalityAware {
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
    let mut world = warm(GpuPolicy::LALB, 2);
    let on = gpu_of(&world, 0);
    for _ in 0..3 {
        world.offer(0, None);
    }
    world.dispatch();
    world.lose(GpuId(on));
    assert_eq!(given(&mut world), [(0, 1 - on, false)]);
    assert_eq!(world.waiting.len(), 2);
}

#[test]
fn what_no_gpu_can_execute_is_refused() {
    let models = vec![model(&[(1, 100)]), model(&[(2, 600)])];
    let mut scheduler = GpuScheduler::new(GpuPolicy::LALB, topology(1, 500), models);
    let request = |id, model| GpuRequest {
        id: tetris_scaler_dispatch::RequestId(id),
        function: 0,
        model: ModelId(model),
        arrived_us: 0,
        deadline_us: None,
    };
    assert_eq!(scheduler.offer(request(1, 0)), Ok(()));
    assert_eq!(scheduler.offer(request(1, 0)), Err(GpuRejection::Known));
    let large = scheduler.offer(request(2, 1)).unwrap_err();
    assert!(matches!(large, GpuRejection::TooLarge { .. }), "{large}");
    let unknown = scheduler.offer(request(3, 2)).unwrap_err();
    assert!(unknown.to_string().contains("below 2"), "{unknown}");
    assert_eq!(scheduler.waiting(), 1);
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
    let mut world = warm(GpuPolicy::Torpor(TORPOR), 4);
    let on = gpu_of(&world, 0);
    world.offer(0, None);
    world.offer(0, None);
    world.dispatch();
    let copy = world
        .running
        .values()
        .find_map(|one| one.load.clone().map(|load| (one.gpu.0, load)));
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
    let mut world = warm(GpuPolicy::Torpor(TORPOR), 2);
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
    let mut world = World::new(GpuPolicy::Torpor(TORPOR), topology(4, 500), models);
    for number in 0..4 {
        world.offer(number, None);
    }
    let switches: Vec<u32> = world.dispatch().iter().map(|one| one.gpu.0 / 2).collect();
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
        let mut world = World::new(GpuPolicy::Torpor(rules), topology(1, 450), models);
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
    let mut world = World::new(GpuPolicy::Torpor(TORPOR), topology(1, 500), models);
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
fn a_miss_costs_only_the_bytes_that_are_not_there() {
    for (policy, bytes) in [
        (GpuPolicy::Sharing(SharingRules::default()), 30_000_000),
        (GpuPolicy::LALB, 330_000_000),
    ] {
        let models = vec![model(&[(7, 300), (1, 20)]), model(&[(7, 300), (2, 30)])];
        let mut world = World::new(policy, topology(1, 700), models);
        world.offer(0, None);
        world.dispatch();
        world.complete(GpuId(0), Outcome::Served);
        world.offer(1, None);
        let given = world.dispatch();
        let load = given[0].load.as_ref().unwrap();
        assert_eq!((load.bytes, load.evicted.len()), (bytes, 0));
    }
}

#[test]
fn a_request_that_cannot_be_in_time_is_refused() {
    let mut world = warm(GpuPolicy::Sharing(SharingRules::default()), 1);
    world.offer(0, Some(10 * MS));
    world.reject();
    assert_eq!(world.refused, 0);
    world.now_us += 1;
    world.reject();
    assert_eq!((world.refused, world.scheduler.waiting()), (1, 0));
}

#[test]
fn a_request_whose_load_or_wait_would_be_too_long_is_refused_at_once() {
    // 200 MB over 1 GB/s, and 10 ms to compute.
    let models = vec![model(&[(1, 200)]), model(&[(2, 200)])];
    let policy = GpuPolicy::Sharing(SharingRules::default());
    let mut world = World::new(policy, topology(1, 500), models);
    world.offer(0, Some(210 * MS - 1));
    world.reject();
    assert_eq!(world.refused, 1);
    world.offer(0, Some(210 * MS));
    world.reject();
    assert_eq!((world.refused, world.dispatch().len()), (1, 1));
    // The GPU is busy for 210 ms: the same model takes 10 more, another one 210.
    for (number, slo) in [(0, 220 * MS - 1), (1, 420 * MS - 1)] {
        world.offer(number, Some(slo));
        world.reject();
        assert_eq!(world.scheduler.waiting(), 0, "model {number}");
        let waits = world.offer(number, Some(slo + 1));
        world.reject();
        assert_eq!(world.scheduler.waiting(), 1, "model {number}");
        world.scheduler.cancel(world.now_us, waits);
    }
}

#[test]
fn while_no_gpu_answers_requests_wait_for_as_long_as_they_can_be_in_time() {
    let mut world = warm(GpuPolicy::Sharing(SharingRules::default()), 1);
    world.scheduler.suspend_gpu(GpuId(0));
    world.offer(0, Some(10 * MS));
    world.reject();
    assert_eq!(world.refused, 0);
}
