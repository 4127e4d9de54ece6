//! Servers that refuse, break off, or send something else. Nothing wrong is published, and the error has the remedy.

use std::time::{Duration, Instant};

use tetris_delivery::PullError;
use tetris_test_support::model_site::{Asked, Fault, ModelSite};

use crate::world::{World, options};

/// Part of the message of the error of a pull from a server with these faults, which leaves no model.
fn error(fault: impl Fn(&Asked, usize) -> Option<Fault> + Send + 'static) -> PullError {
    let world = World::new();
    world.site.misbehave(fault);
    let error = world.pull("m.safetensors").unwrap_err();
    assert_eq!(world.store().manifests().unwrap().len(), 0, "{error}");
    assert_eq!(
        world.store().identity_records().unwrap().len(),
        0,
        "{error}"
    );
    world.site.behave();
    world.pull_one("m.safetensors");
    world.assert_loads_from_the_store();
    error
}

/// The fault for ranges of more than a byte: the file is found, and then its content is the problem.
fn in_content(fault: Fault) -> impl Fn(&Asked, usize) -> Option<Fault> + Send + 'static {
    move |asked, _| {
        let is_content = asked.range.is_none_or(|(first, last)| last > first);
        is_content.then(|| fault.clone())
    }
}

#[test]
fn refusals_say_what_to_do_and_are_not_repeated() {
    for (status, words) in [
        (401, "TETRIS_PULL_TOKEN"),
        (403, "may not read"),
        (404, "check the address"),
        (418, "expects"),
    ] {
        let world = World::new();
        world
            .site
            .misbehave(move |_, _| Some(Fault::Status(status, None)));
        let error = world.pull("m.safetensors").unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains(words) && text.contains(&status.to_string()),
            "{text}"
        );
        assert_eq!(world.site.take_asked().len(), 1, "{status}");
    }
}

#[test]
fn a_busy_server_is_asked_again_after_the_time_it_names() {
    let world = World::new();
    let wait = || Some(("retry-after", "1".to_owned()));
    world
        .site
        .misbehave(move |_, before| (before == 1).then(|| Fault::Status(429, wait())));
    let begun = Instant::now();
    world.pull_one("m.safetensors");
    assert!(begun.elapsed() >= Duration::from_secs(1));
    world.site.misbehave(|_, _| {
        let hour = Some(("retry-after", "3600".to_owned()));
        Some(Fault::Status(503, hour))
    });
    let error = world.pull("m.safetensors").unwrap_err();
    assert!(
        matches!(error, PullError::Busy { wait, .. } if wait.as_secs() == 3600),
        "{error}"
    );
}

#[test]
fn a_range_that_is_refused_within_the_file_is_asked_for_again() {
    let world = World::new();
    let refused = |_: &Asked, before: usize| (before == 1).then_some(Fault::Status(416, None));
    world.site.misbehave(refused);
    world.pull_one("m.safetensors");
    world.assert_loads_from_the_store();
}

#[test]
fn attempts_at_a_broken_server_end() {
    let error = error(|_, _| Some(Fault::Status(500, None)));
    assert!(
        matches!(error, PullError::GaveUp { attempts: 2, .. }),
        "{error}"
    );
}

#[test]
fn a_server_that_ignores_ranges_is_refused() {
    let error = error(in_content(Fault::WholeFile));
    assert!(matches!(error, PullError::NoRanges { .. }), "{error}");
}

#[test]
fn an_answer_that_ends_too_early_is_gone_on_with() {
    let world = World::new();
    // Each answer brings a part: in the end all of it is there, each byte once.
    world
        .site
        .misbehave(in_content(Fault::EndsAfter(1_500_000)));
    world.pull_one("m.safetensors");
    world.assert_loads_from_the_store();
    assert!(world.site.take_sent() < world.size() * 3 / 2);
}

#[test]
fn an_answer_that_stops_is_given_up() {
    let error = error(in_content(Fault::StopsAfter(1000)));
    assert!(
        error.to_string().contains("nothing came for 0.3 s"),
        "{error}"
    );
}

#[test]
fn an_answer_that_is_too_long_is_not_taken() {
    let error = error(in_content(Fault::TooMuch));
    assert!(error.to_string().contains("more bytes"), "{error}");
}

#[test]
fn a_file_that_is_replaced_meanwhile_is_not_mixed_with_the_other() {
    let error = error(in_content(Fault::Replaced));
    assert!(matches!(error, PullError::Changed { .. }), "{error}");
}

#[test]
fn other_bytes_than_the_manifest_says_are_read_as_another_file() {
    let world = World::new();
    world.pull_one("m.safetensors");
    let objects = world.store().objects().unwrap().objects;
    let largest = objects.iter().max_by_key(|entry| entry.object.len).unwrap();
    world.store().reclaim(&largest.object).unwrap();
    let offset_of_data = 100_000;
    // The header is right and the tensor is another: the identity goes, and the file is read.
    world.site.misbehave(move |asked, _| {
        let is_tensor = asked.range.is_some_and(|(first, _)| first > offset_of_data);
        is_tensor.then_some(Fault::OtherBytes)
    });
    let report = world.pull_one("m.safetensors");
    assert_eq!(report.known_by, tetris_delivery::KnownBy::Reading);
    // What came is under the names of its bytes, so the right file is loaded right.
    let model = world.fixture.agent.load(&world.model).unwrap();
    tetris_test_support::models::assert_same(&model, &world.model);
}

#[test]
fn a_redirect_leads_elsewhere_without_a_loop() {
    let world = World::new();
    let other = ModelSite::new();
    other.put("m.safetensors", std::fs::read(&world.model).unwrap());
    let there = other.url();
    world
        .site
        .misbehave(move |_, _| Some(Fault::Redirect(there.clone())));
    world.pull_one("m.safetensors");
    world.assert_loads_from_the_store();
    let here = world.site.url();
    world
        .site
        .misbehave(move |_, _| Some(Fault::Redirect(here.clone())));
    let error = world.pull_with("m.safetensors", &options()).unwrap_err();
    assert!(matches!(error, PullError::GaveUp { .. }), "{error}");
}

#[test]
fn a_header_that_is_none_is_no_model() {
    let world = World::new();
    for (name, bytes) in [
        ("a.safetensors", vec![0xff; 5000]),
        ("b.safetensors", b"<html>not found</html>".to_vec()),
        ("c.safetensors", vec![1, 2, 3]),
    ] {
        world.site.put(name, bytes);
        let error = world.pull(name).unwrap_err();
        assert!(matches!(error, PullError::Load(_)), "{error}");
    }
    assert_eq!(world.objects(), 0);
}
