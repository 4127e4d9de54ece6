//! Pulls that go on after an earlier one ended.

use tetris_delivery::{KnownBy, PullError, pull};
use tetris_test_support::model_site::{Asked, Fault};

use crate::world::{World, options};

/// Refuses the second of the two tensors of 5 MB.
fn refuses_the_second(asked: &Asked, _: usize) -> Option<Fault> {
    let is_second = |(first, last)| first > 5_500_000 && last - first > 1_000_000;
    let is_second = asked.range.is_some_and(is_second);
    is_second.then_some(Fault::Status(500, None))
}

#[test]
fn objects_of_an_earlier_attempt_are_not_fetched_again() {
    let world = World::new();
    world.site.misbehave(refuses_the_second);
    let error = world.pull("m.safetensors").unwrap_err();
    assert!(matches!(error, PullError::GaveUp { .. }), "{error}");
    let objects = world.objects();
    assert!(objects >= 1, "{objects}");
    world.site.behave();
    world.site.take_sent();
    let report = world.pull_one("m.safetensors");
    assert_eq!(report.known_by, KnownBy::Reading);
    // The first of them was there.
    let sent = world.site.take_sent();
    assert!(
        sent < world.size() - 4_500_000,
        "{sent} of {}",
        world.size()
    );
    world.assert_loads_from_the_store();
    // The notes go with the pull.
    let records = world.store().derived_records().unwrap();
    let records = records.iter().filter_map(|entry| {
        let record = world.store().derived_record(entry.id).unwrap()?;
        Some(record.key.transform().to_owned())
    });
    let mut transforms: Vec<_> = records.collect();
    transforms.sort();
    assert_eq!(transforms, ["folder", "header"]);
}

#[test]
fn notes_about_another_version_count_for_nothing() {
    let world = World::new();
    world.site.misbehave(refuses_the_second);
    world.pull("m.safetensors").unwrap_err();
    world.site.behave();
    let other = world.fixture.model("other.safetensors", 2);
    world
        .site
        .put("m.safetensors", std::fs::read(&other).unwrap());
    let report = world.pull_one("m.safetensors");
    assert_eq!(report.new_objects, report.objects);
    let model = world.fixture.agent.load(&other).unwrap();
    assert_eq!(model.report().bytes_new, 0);
}

#[test]
fn two_pulls_at_once_fetch_a_file_once() {
    let world = World::new();
    let source = world.site.file_url("m.safetensors").parse().unwrap();
    let reports: Vec<_> = std::thread::scope(|scope| {
        let pulls = [(); 4]
            .map(|()| scope.spawn(|| pull(&source, world.destination(), &options()).unwrap()));
        pulls.map(|pull| pull.join().unwrap()).into()
    });
    let fetched: u64 = reports.iter().map(|report| report.fetched).sum();
    assert!(fetched < world.size() * 3 / 2, "{fetched}");
    world.assert_loads_from_the_store();
}
