//! Conformance: the real code reports the same completed steps (`TETRIS_CRASH_COUNT_FILE`), in the
//! same order, as the model's process in the same circumstances.

use std::path::Path;
use std::process::Command;

use tetris_protocol_model::files::{Content, Files, Mode};
use tetris_protocol_model::model::Model;
use tetris_protocol_model::operation::Rules;
use tetris_protocol_model::solo;
use tetris_protocol_model::step::Protocol;
use tetris_store_layout::{
    Access, CRASH_COUNT_FILE, CreateOptions, ObjectRef, Reclaimed, SEGMENT_BYTES, Staging, Store,
};

/// Environment variable with the scenario for a second run of this program.
const SCENARIO: &str = "TETRIS_MODEL_SCENARIO";
/// Environment variable with its directory.
const PLACE: &str = "TETRIS_MODEL_PLACE";

/// An operation and the state at its start.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    name: &'static str,
    protocol: Protocol,
    there: There,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum There {
    Nothing,
    Object,
    Referenced,
    Truncated,
}

const SCENARIOS: [Scenario; 13] = [
    scenario("look up and publish", Protocol::Map, There::Nothing),
    scenario("look up and find", Protocol::Map, There::Object),
    scenario("look up a damaged object", Protocol::Map, There::Truncated),
    scenario("stage a new object", Protocol::Publish, There::Nothing),
    scenario("stage an existing object", Protocol::Publish, There::Object),
    scenario(
        "stage a damaged object",
        Protocol::Publish,
        There::Truncated,
    ),
    scenario("reclaim nothing", Protocol::Reclaim, There::Nothing),
    scenario("reclaim", Protocol::Reclaim, There::Object),
    scenario(
        "reclaim a held object",
        Protocol::Reclaim,
        There::Referenced,
    ),
    scenario(
        "reclaim a damaged object",
        Protocol::Reclaim,
        There::Truncated,
    ),
    scenario("quarantine nothing", Protocol::Quarantine, There::Nothing),
    scenario("quarantine", Protocol::Quarantine, There::Object),
    scenario(
        "quarantine a held object",
        Protocol::Quarantine,
        There::Referenced,
    ),
];

const fn scenario(name: &'static str, protocol: Protocol, there: There) -> Scenario {
    Scenario {
        name,
        protocol,
        there,
    }
}

/// Two segments, because the model writes in two pieces.
fn bytes() -> Vec<u8> {
    vec![7; SEGMENT_BYTES as usize + 1]
}

/// Completed steps of the model.
fn of_model(scenario: Scenario) -> Vec<String> {
    let model = Model {
        rules: Rules {
            objects: 1,
            ..Rules::default()
        },
        ..Model::default()
    };
    let mut state = model.start();
    match scenario.there {
        There::Nothing => {}
        There::Referenced => {
            state = solo::run(&model.rules, &state, Protocol::Publish, 0).0;
        }
        There::Object | There::Truncated => state.files = files(scenario.there),
    }
    let (_, passed) = solo::run(&model.rules, &state, scenario.protocol, 0);
    passed.iter().map(|step| format!("{step:?}")).collect()
}

fn files(there: There) -> Files {
    let mut files = Files::default();
    let inode = files.create();
    files.link(inode, 0);
    let file = files.inode_mut(inode);
    file.mode = Mode::Sealed;
    file.content = match there {
        There::Truncated => Content::Damaged,
        _ => Content::Whole(0),
    };
    files
}

/// Completed steps of the real code.
fn of_code(scenario: Scenario, place: &Path) -> Vec<String> {
    let store = Store::create(place.join("store"), &CreateOptions::default()).unwrap();
    let object = ObjectRef::of(&bytes());
    let mut reference = None;
    if scenario.there != There::Nothing {
        reference = Some(store.publish(&bytes(), Access::ReadOnly).unwrap());
    }
    match scenario.there {
        There::Referenced => {}
        There::Truncated => {
            drop(reference.take());
            std::fs::remove_file(store.object_path(&object)).unwrap();
            std::fs::write(store.object_path(&object), b"short").unwrap();
            let read_only = std::os::unix::fs::PermissionsExt::from_mode(0o444);
            std::fs::set_permissions(store.object_path(&object), read_only).unwrap();
        }
        _ => drop(reference.take()),
    }
    let steps = place.join("steps");
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "conformance::the_code_passes_the_steps_of_the_model",
            "--nocapture",
        ])
        .env(SCENARIO, scenario.name)
        .env(PLACE, place.join("store"))
        .env(CRASH_COUNT_FILE, &steps)
        .output()
        .unwrap();
    assert!(output.status.success(), "{scenario:?}: {output:?}");
    drop(reference);
    let passed = std::fs::read_to_string(&steps).unwrap_or_default();
    passed.lines().map(str::to_owned).collect()
}

/// Runs a scenario in the observed process.
fn run(name: &str) {
    let store = Store::open(std::env::var_os(PLACE).unwrap()).unwrap();
    let object = ObjectRef::of(&bytes());
    let scenario = SCENARIOS.into_iter().find(|scenario| scenario.name == name);
    let Scenario {
        protocol, there, ..
    } = scenario.unwrap();
    match protocol {
        Protocol::Map => {
            store.publish(&bytes(), Access::ReadOnly).unwrap();
        }
        Protocol::Publish => {
            stage(store.stage(object.len).unwrap());
        }
        Protocol::Reclaim => {
            let expected = match there {
                There::Nothing => Reclaimed::Absent,
                There::Object => Reclaimed::Freed { bytes: object.len },
                There::Referenced => Reclaimed::Referenced,
                There::Truncated => Reclaimed::Freed { bytes: 5 },
            };
            assert_eq!(store.reclaim(&object).unwrap(), expected);
        }
        Protocol::Quarantine => {
            let moved = store.quarantine(&object).unwrap();
            assert_eq!(moved, there != There::Nothing);
        }
    }
}

fn stage(staging: Staging<'_>) {
    let bytes = bytes();
    let segments = bytes.chunks(SEGMENT_BYTES as usize).zip(0..);
    let digests = segments.map(|(bytes, index)| {
        let mut writer = staging.segment(index);
        writer.write(bytes).unwrap();
        writer.finish()
    });
    let digests: Vec<_> = digests.collect();
    staging.commit(&digests, Access::ReadOnly).unwrap();
}

#[test]
fn the_code_passes_the_steps_of_the_model() {
    if let Ok(name) = std::env::var(SCENARIO) {
        return run(&name);
    }
    for scenario in SCENARIOS {
        let place = tempfile::tempdir_in("/dev/shm").unwrap();
        let code = of_code(scenario, place.path());
        assert_eq!(code, of_model(scenario), "{scenario:?}");
    }
}
