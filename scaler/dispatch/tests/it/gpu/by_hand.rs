//! Decisions of the policies in situations made by hand.

use std::sync::Arc;

use tetris_scaler_dispatch::Outcome;
use tetris_scaler_dispatch::gpu::{
    GpuId, GpuPolicy, GpuRejection, GpuRequest, GpuScheduler, LoadBalancing, ModelId, SharingRules,
};
use tetris_test_support::gpu_world::{MS, World, given, model, topology, warm};

#[test]
fn load_balancing_ignores_where_models_are() {
    let mut world = warm(LoadBalancing, 2);
    world.offer(1, None);
    world.offer(0, None);
    assert_eq!(given(&mut world), [(0, 1, false), (1, 0, false)]);
}

#[test]
fn what_no_gpu_can_execute_is_refused() {
    let models = vec![model(&[(1, 100)]), model(&[(2, 600)])];
    let mut scheduler = GpuScheduler::new(Arc::new(LoadBalancing), topology(1, 500), models);
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

/// Bytes that a model costs beside another one with 300 of its 330 MB.
fn missed_bytes(policy: impl GpuPolicy + 'static) -> u64 {
    let models = vec![model(&[(7, 300), (1, 20)]), model(&[(7, 300), (2, 30)])];
    let mut world = World::new(policy, topology(1, 700), models);
    world.offer(0, None);
    world.dispatch();
    world.complete(GpuId(0), Outcome::Served);
    world.offer(1, None);
    let given = world.dispatch();
    let load = given[0].load.as_ref().unwrap();
    assert_eq!(load.evicted.len(), 0);
    load.bytes
}

#[test]
fn a_miss_costs_only_the_bytes_that_are_not_there() {
    assert_eq!(missed_bytes(SharingRules::default()), 30_000_000);
    assert_eq!(missed_bytes(LoadBalancing), 330_000_000);
}

#[test]
fn a_request_that_cannot_be_in_time_is_refused() {
    let mut world = warm(SharingRules::default(), 1);
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
    let policy = SharingRules::default();
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
    let mut world = warm(SharingRules::default(), 1);
    world.scheduler.suspend_gpu(GpuId(0));
    world.offer(0, Some(10 * MS));
    world.reject();
    assert_eq!(world.refused, 0);
}
