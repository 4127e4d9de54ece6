//! Facts that are learned while requests run, and requests that leave.

use std::sync::Arc;

use tetris_scaler_dispatch::Outcome;
use tetris_scaler_dispatch::gpu::{
    Gpu, GpuId, GpuScheduler, ModelId, SharingRules, Source, Topology,
};
use tetris_test_support::gpu_world::{MB, MS, World, model, topology};

fn sharing(gpus: u32) -> World {
    let models = (0..4).map(|number| model(&[(number, 200)])).collect();
    let policy = SharingRules::default();
    World::new(policy, topology(gpus, 500), models)
}

#[test]
fn a_gpu_that_was_added_gets_requests_once_it_is_there() {
    let mut world = sharing(0);
    let gpu = Gpu {
        memory_bytes: 500 * MB,
        node: 0,
        switch: 0,
    };
    let added = world.scheduler.add_gpu(gpu);
    world.topology.gpus.push(gpu);
    world.offer(0, None);
    assert_eq!(world.dispatch(), []);
    world.scheduler.restore_gpu(world.now_us, added);
    assert_eq!(world.dispatch()[0].gpu, added);
}

#[test]
fn models_that_an_executor_reports_are_hits_and_those_that_are_gone_are_misses() {
    let mut world = sharing(2);
    world.observe(GpuId(1), &[0, 1]);
    world.offer(0, None);
    let given = world.dispatch();
    assert_eq!((given[0].gpu, given[0].load.is_none()), (GpuId(1), true));
    // The running model stays in the record, the other one does not.
    world.observe(GpuId(1), &[]);
    let resident: Vec<ModelId> = world.scheduler.resident(GpuId(1)).collect();
    assert_eq!(resident, [ModelId(0)]);
    world.complete(GpuId(1), Outcome::Served);
    world.observe(GpuId(1), &[]);
    world.offer(0, None);
    assert!(world.dispatch()[0].load.is_some());
}

#[test]
fn reported_models_without_room_in_the_record_stay_out_of_it() {
    let mut world = sharing(1);
    world.observe(GpuId(0), &[0, 1, 2, 3]);
    assert_eq!(world.scheduler.resident(GpuId(0)).count(), 2);
}

#[test]
fn a_held_model_stays_until_it_is_gone_or_its_gpu_is_lost() {
    let mut world = sharing(1);
    world.observe(GpuId(0), &[0, 1]);
    assert!(world.scheduler.hold_model(GpuId(0), ModelId(0)));
    assert!(!world.scheduler.hold_model(GpuId(0), ModelId(2)));
    for round in [2, 3, 1] {
        world.offer(round, None);
        let given = world.dispatch();
        assert_eq!(given.len(), 1);
        let resident: Vec<ModelId> = world.scheduler.resident(GpuId(0)).collect();
        assert_eq!(resident.first(), Some(&ModelId(0)), "in round {round}");
        world.complete(GpuId(0), Outcome::Served);
    }
    // Two held models leave no room.
    assert!(world.scheduler.hold_model(GpuId(0), ModelId(1)));
    world.offer(2, None);
    assert_eq!(world.dispatch(), []);
    world.observe(GpuId(0), &[0]);
    assert_eq!(world.dispatch().len(), 1);
    world.complete(GpuId(0), Outcome::Served);
    world.suspend(GpuId(0));
    assert_eq!(world.scheduler.resident(GpuId(0)).count(), 0);
}

#[test]
fn a_request_of_a_suspended_gpu_ends_there_and_others_go_elsewhere() {
    let mut world = sharing(2);
    world.offer(0, None);
    let on = world.dispatch()[0].gpu;
    world.suspend(on);
    world.offer(0, None);
    let other = world.dispatch()[0].gpu;
    assert_ne!(on, other);
    world.complete(on, Outcome::Served);
    world.offer(1, None);
    assert_eq!(world.dispatch(), [], "one is lost, the other busy");
    assert!(!world.scheduler.is_available(on));
}

#[test]
fn a_request_that_was_not_sent_keeps_its_place() {
    let mut world = sharing(1);
    let first = world.offer(0, None);
    world.dispatch();
    world.offer(1, None);
    world.give_back(GpuId(0));
    assert_eq!(world.dispatch()[0].request.id, first);
}

#[test]
fn an_executor_that_does_not_serve_a_model_does_not_get_its_requests() {
    let mut world = sharing(2);
    world.scheduler.set_unserved(GpuId(0), [ModelId(3)]);
    for _ in 0..2 {
        world.offer(3, None);
    }
    let given: Vec<GpuId> = world
        .dispatch()
        .iter()
        .map(|dispatch| dispatch.gpu)
        .collect();
    assert_eq!(given, [GpuId(1)]);
}

#[test]
fn the_time_of_the_next_refusal_is_that_of_the_tightest_deadline() {
    let mut world = sharing(1);
    world.offer(0, None);
    world.dispatch();
    assert_eq!(world.scheduler.next_us(), None);
    // The GPU is busy for 210 ms, and then has their model.
    world.offer(0, Some(300 * MS));
    world.offer(0, Some(240 * MS));
    let at = world.scheduler.next_us().unwrap();
    world.now_us = at - 1;
    world.reject();
    assert_eq!(world.refused, 0);
    world.now_us = at;
    world.reject();
    assert_eq!(world.refused, 1);
}

#[test]
fn the_backlog_is_shared_by_the_gpus_that_are_available() {
    let mut world = sharing(2);
    for _ in 0..6 {
        world.offer(0, None);
    }
    assert_eq!(world.scheduler.backlog_us(world.now_us), Some(30 * MS));
    world.suspend(GpuId(0));
    assert_eq!(world.scheduler.backlog_us(world.now_us), Some(60 * MS));
    world.suspend(GpuId(1));
    assert_eq!(world.scheduler.backlog_us(world.now_us), None);
}

#[test]
fn links_and_bandwidth_that_are_learned_choose_the_origin() {
    let models = vec![model(&[(0, 200)])];
    let bare = Topology {
        peers: std::collections::BTreeMap::new(),
        ..topology(2, 500)
    };
    let policy = SharingRules::default();
    let mut scheduler = GpuScheduler::new(Arc::new(policy), bare.clone(), models.clone());
    scheduler.set_links(GpuId(0), &[(GpuId(1), 4_000 * MB)]);
    scheduler.observe_memory(0, GpuId(0), &[ModelId(0)]);
    let mut world = World::new(policy, bare, models);
    world.scheduler = scheduler;
    // A load over the link takes less than the run of the other request, from the host more.
    world.scheduler.set_model(
        ModelId(0),
        tetris_scaler_dispatch::gpu::GpuModel {
            infer_us: 500 * MS,
            ..world.scheduler.model(ModelId(0)).unwrap().clone()
        },
    );
    for _ in 0..2 {
        world.offer(0, None);
    }
    let given = world.dispatch();
    assert_eq!(
        given[1].load.as_ref().unwrap().source,
        Source::Gpu(GpuId(0))
    );
}
