//! Layouts: built by one process, attached by the others.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tetris_agent::{
    Access, Agent, AttachedLayout, Dtype, LayoutKey, LayoutParts, LoadOptions, Origin,
    PlacedTensor, Region, TensorId,
};

use tetris_test_support::models::Fixture;

const LEN: u64 = 200_000;

fn key(sources: &[TensorId]) -> LayoutKey {
    let numbered = sources.iter().enumerate();
    numbered.fold(LayoutKey::new("double", 1), |key, (number, id)| {
        key.with_source(number.to_string(), *id)
    })
}

fn published(agent: &Agent, byte: u8) -> Arc<Region> {
    let fill = |_: u64, buffer: &mut [u8]| buffer.fill(byte);
    let options = LoadOptions::default().with_access(Access::CopyOnWrite);
    agent.publish(LEN, &fill, &options).unwrap()
}

fn tensor(name: &str, region: &Arc<Region>, offset: u64, alias: Option<u32>) -> PlacedTensor {
    PlacedTensor {
        name: name.to_owned(),
        dtype: Dtype::F32,
        shape: vec![100, 200],
        strides: vec![200, 1],
        region: Some(Arc::clone(region)),
        offset,
        alias,
    }
}

/// A weight, its alias, and one of the same bytes that is none.
fn parts(agent: &Agent) -> LayoutParts {
    let region = published(agent, 7);
    let tensors = vec![
        tensor("weight", &region, 64, None),
        tensor("tied", &region, 64, Some(0)),
        tensor("equal", &region, 64, None),
        tensor("beside", &region, 64 + 80_000, None),
    ];
    let attributes = BTreeMap::from([("kernel".to_owned(), b"fused".to_vec())]);
    LayoutParts {
        tensors,
        attributes,
    }
}

fn options() -> LoadOptions {
    LoadOptions::default().with_access(Access::CopyOnWrite)
}

/// Asks for the layout; returns it, and true if it was built here.
fn ask(agent: &Agent, key: &LayoutKey) -> (AttachedLayout, bool) {
    let built = Cell::new(false);
    let build = || {
        built.set(true);
        Ok::<_, Infallible>(parts(agent))
    };
    let Ok(layout) = agent.layout(key, &options(), build).unwrap();
    (layout, built.get())
}

fn addresses(layout: &AttachedLayout) -> Vec<usize> {
    let tensors = layout.parts().tensors.iter();
    tensors
        .map(|tensor| tensor.region.as_ref().unwrap().address().get())
        .collect()
}

#[test]
fn one_process_builds_and_the_others_attach() {
    let fixture = Fixture::new();
    let key = key(&[TensorId::of(b"source")]);
    let (first, built) = ask(&fixture.agent, &key);
    assert_eq!((first.origin(), built), (Origin::New, true));
    let other = Agent::open_store(fixture.store_dir()).unwrap();
    let (again, built) = ask(&other, &key);
    assert_eq!((again.origin(), built), (Origin::Shared, false));
    assert_eq!(again.parts().attributes["kernel"], b"fused");
    let names: Vec<_> = again
        .parts()
        .tensors
        .iter()
        .map(|tensor| &tensor.name)
        .collect();
    assert_eq!(names, ["weight", "tied", "equal", "beside"]);
    // Aliases have one memory, tensors that only have the same bytes have not.
    let [weight, tied, equal, beside] = addresses(&again)[..] else {
        panic!("four tensors");
    };
    assert_eq!(weight, tied);
    assert_ne!(weight, equal);
    assert!(beside == weight || beside == equal);
    // The object, and the table.
    assert_eq!(fixture.store().objects().unwrap().objects.len(), 2);
}

#[test]
fn a_layout_whose_objects_are_gone_is_built_anew() {
    let fixture = Fixture::new();
    let key = key(&[TensorId::of(b"source")]);
    let (first, _) = ask(&fixture.agent, &key);
    let object = *first.parts().tensors[0]
        .region
        .as_ref()
        .unwrap()
        .object()
        .unwrap();
    drop(first);
    fixture.store().reclaim(&object).unwrap();
    let (again, built) = ask(&fixture.agent, &key);
    assert_eq!((again.origin(), built), (Origin::New, true));
    assert!(!ask(&fixture.agent, &key).1);
}

#[test]
fn a_hostile_table_is_replaced() {
    let fixture = Fixture::new();
    let key = key(&[TensorId::of(b"source")]);
    let table = fixture
        .store()
        .publish(b"TETRLAYT and no more", Access::ReadOnly)
        .unwrap();
    let derived = key.derived_key().unwrap();
    fixture
        .store()
        .record_derived(&derived, table.object)
        .unwrap();
    let (layout, built) = ask(&fixture.agent, &key);
    assert_eq!((layout.origin(), built), (Origin::New, true));
    assert_eq!(ask(&fixture.agent, &key).0.origin(), Origin::Shared);
}

#[test]
fn an_error_of_the_build_is_the_callers_and_records_nothing() {
    let fixture = Fixture::new();
    let key = key(&[TensorId::of(b"source")]);
    let failed = fixture.agent.layout(&key, &options(), || Err("no kernel"));
    assert_eq!(failed.unwrap().unwrap_err(), "no kernel");
    assert!(fixture.store().derived_records().unwrap().is_empty());
    assert!(ask(&fixture.agent, &key).1);
}

#[test]
fn private_memory_and_invalid_parts_are_recorded_for_nobody() {
    let fixture = Fixture::new();
    let key = key(&[TensorId::of(b"source")]);
    let private = |change: &dyn Fn(&mut LayoutParts), says: &str| {
        let build = || {
            let mut parts = parts(&fixture.agent);
            change(&mut parts);
            Ok::<_, Infallible>(parts)
        };
        let Ok(layout) = fixture.agent.layout(&key, &options(), build).unwrap();
        assert_eq!(layout.origin(), Origin::Private);
        let reason = layout.private_reason().unwrap();
        assert!(reason.contains(says), "{reason}");
        assert!(fixture.store().derived_records().unwrap().is_empty());
    };
    let region = Arc::new(Region::zeroed(80_064).unwrap());
    private(
        &|parts| parts.tensors[0].region = Some(Arc::clone(&region)),
        "`weight` is in private memory",
    );
    private(
        &|parts| parts.tensors[0].offset = LEN,
        "inside an object of 200000 bytes",
    );
    private(
        &|parts| parts.tensors[3].name = "tied".to_owned(),
        "tensor name is tied",
    );
    let none = Agent::without_store();
    let Ok(layout) = none
        .layout(&key, &options(), || {
            Ok::<_, Infallible>(parts(&fixture.agent))
        })
        .unwrap();
    assert_eq!(layout.origin(), Origin::Private);
    assert!(
        none.layout(&LayoutKey::new("a\nb", 1), &options(), || Err(()))
            .is_err()
    );
}

#[test]
fn processes_that_ask_at_once_build_once_and_do_not_wait_for_ever() {
    let fixture = Fixture::new();
    let key = key(&[TensorId::of(b"source")]);
    let builds = AtomicU32::new(0);
    let build_slowly = |agent: &Agent, wait: Duration| {
        let build = || {
            builds.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(500));
            Ok::<_, Infallible>(parts(agent))
        };
        let Ok(layout) = agent
            .layout(&key, &options().with_wait(wait), build)
            .unwrap();
        layout.origin()
    };
    let agents: Vec<_> = (0..3)
        .map(|_| Agent::open_store(fixture.store_dir()).unwrap())
        .collect();
    let patient = Duration::from_mins(1);
    let origins: Vec<_> = std::thread::scope(|scope| {
        let asked: Vec<_> = agents
            .iter()
            .map(|agent| scope.spawn(|| build_slowly(agent, patient)))
            .collect();
        asked
            .into_iter()
            .map(|agent| agent.join().unwrap())
            .collect()
    });
    assert_eq!(builds.load(Ordering::Relaxed), 1);
    assert_eq!(
        origins
            .iter()
            .filter(|origin| **origin == Origin::New)
            .count(),
        1
    );
    // One that hangs holds up others for as long as they wait.
    let lock = fixture.store().creation_lock(
        &key.clone()
            .with_condition("other", "1")
            .derived_key()
            .unwrap()
            .id()
            .0,
        Duration::ZERO,
        || false,
    );
    assert!(lock.is_some());
    let other = key.with_condition("other", "1");
    let build = || Ok::<_, Infallible>(parts(&fixture.agent));
    let short = options().with_wait(Duration::from_millis(50));
    let Ok(layout) = fixture.agent.layout(&other, &short, build).unwrap();
    assert_eq!(layout.origin(), Origin::New);
}

#[test]
fn a_layout_goes_with_the_last_model_that_it_is_made_of() {
    let fixture = Fixture::new();
    let path = fixture.model("model.safetensors", 1);
    let model = fixture.agent.load(&path).unwrap();
    let source = model.tensors().find_map(|tensor| tensor.id()).unwrap();
    drop(model);
    drop(ask(
        &fixture.agent,
        &key(&[TensorId::of(b"another"), source]),
    ));
    let ids = fixture
        .store()
        .manifests()
        .unwrap()
        .iter()
        .map(|entry| entry.id)
        .collect();
    tetris_agent::remove::remove_models(fixture.store(), &ids, false).unwrap();
    assert!(fixture.store().derived_records().unwrap().is_empty());
    assert!(fixture.store().objects().unwrap().objects.is_empty());
}
