//! The worker's side: a scenario between two markers.

use std::convert::Infallible;
use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::time::Duration;

use anyhow::{Context, ensure};
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use tetris_agent::gc::{GcOptions, collect};
use tetris_agent::{Agent, LoadOptions, Model, sidecar};
use tetris_node::config::ConfigFile;
use tetris_node::engine::Reclaimer;
use tetris_node::engine::commands::now_ms;
use tetris_node::report::Trigger;
use tetris_node::store::StoreConfig;
use tetris_reclaimer_core::Expiry;
use tetris_store_layout::{
    Access, CreateOptions, DerivedKey, Digest, Holders, IdentityBy, IdentityKey, Manifest,
    ManifestKind, ManifestObject, ObjectKind, ObjectRef, Store, TensorId, VerifyDepth,
};

use super::template::{ALSO_THERE, LEN, OWNER, THERE};
use super::{BEGIN, END, Job, Outcome, Scenario};
use crate::model::{bytes, fingerprint};
use crate::process::{RESULT, say};

type Done = (String, String);

/// Runs `job` and prints the [`Outcome`].
pub fn run(job: &Job) -> anyhow::Result<()> {
    let outcome = match scenario(job) {
        Ok((result, quality)) => Outcome {
            error: None,
            result,
            quality,
        },
        Err(error) => Outcome {
            error: Some(format!("{error:#}")),
            result: String::new(),
            quality: String::new(),
        },
    };
    say(&format!("{RESULT}{}", serde_json::to_string(&outcome)?))
}

/// Runs `work` between the markers.
fn marked<T>(work: impl FnOnce() -> T) -> T {
    let _ = std::fs::symlink_metadata(BEGIN);
    let done = work();
    let _ = std::fs::symlink_metadata(END);
    done
}

fn object(seed: u64) -> ObjectRef {
    ObjectRef::of(&bytes(seed, LEN))
}

fn scenario(job: &Job) -> anyhow::Result<Done> {
    let root = &job.store;
    match job.scenario {
        Scenario::Create => {
            marked(|| Store::create(root, &CreateOptions::default()))?;
            return done("created");
        }
        Scenario::Open => {
            let store = marked(|| Store::open(root))?;
            return Ok(("opened".into(), format!("writable {}", store.is_writable())));
        }
        _ => {}
    }
    if job.scenario == Scenario::OwnerReclaim {
        let (uid, gid) = (Uid::from_raw(OWNER), Gid::from_raw(OWNER));
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
    }
    let store = Store::open(root)?;
    match job.scenario {
        Scenario::Publish => {
            let contents = [vec![], bytes(9_100, 5_000), bytes(9_101, (4 << 20) + 1)];
            let published = marked(|| {
                contents
                    .each_ref()
                    .map(|b| store.publish(b, Access::ReadOnly))
            });
            for (published, bytes) in published.into_iter().zip(&contents) {
                ensure!(*published?.mapping == bytes[..], "wrong bytes");
            }
            done("published")
        }
        Scenario::Map => {
            let (there, absent) = (object(THERE), object(9_103));
            let mappings = marked(|| {
                Ok::<_, anyhow::Error>([
                    store.map(&there, Access::ReadOnly)?,
                    store.map(&there, Access::CopyOnWrite)?,
                    store.map(&absent, Access::ReadOnly)?,
                ])
            })?;
            let right = |mapping: &tetris_store_layout::Mapping| **mapping == bytes(THERE, LEN)[..];
            done(
                mappings
                    .each_ref()
                    .map(|mapping| mapping.as_ref().map(right)),
            )
        }
        Scenario::Reclaim | Scenario::OwnerReclaim => {
            let _held = store.map(&object(ALSO_THERE), Access::ReadOnly)?;
            let [free, held, absent] = marked(|| {
                Ok::<_, anyhow::Error>([
                    store.reclaim(&object(THERE))?,
                    store.reclaim(&object(ALSO_THERE))?,
                    store.reclaim(&object(9_103))?,
                ])
            })?;
            // No one knows whether what cannot be locked is referenced.
            Ok((format!("{held:?}, {absent:?}"), format!("{free:?}")))
        }
        Scenario::Quarantine => done(marked(|| store.quarantine(&object(THERE)))?),
        Scenario::Verify => {
            let faults = marked(|| {
                let objects = [object(THERE), object(ALSO_THERE)];
                objects.map(|object| store.verify(&object, VerifyDepth::Full))
            });
            let faults: Result<Vec<_>, _> = faults.into_iter().collect();
            done(faults?)
        }
        Scenario::Records => records(&store),
        Scenario::Scan => scan(&store),
        Scenario::Collect => {
            marked(|| collect(&store, &GcOptions::default()))?;
            let left = store.objects()?.objects.len();
            Ok(("collected".into(), format!("{left} left")))
        }
        Scenario::Pass => pass(&store),
        _ => load(job),
    }
}

/// A pass with any fault ends, reports it, and leaves mapped objects.
fn pass(store: &Store) -> anyhow::Result<Done> {
    let mapped = store.map(&object(ALSO_THERE), Access::ReadOnly)?;
    let mut file = ConfigFile {
        stores: vec![StoreConfig {
            name: "store".to_owned(),
            path: store.root().to_owned(),
            namespaces: Vec::new(),
            own: false,
        }],
        ..ConfigFile::default()
    };
    let policy = &mut file.policy.store;
    policy.expiry = Expiry::Fixed;
    (policy.keep_alive_secs, policy.expire_after_secs) = (0, 0);
    let config = file.check()?;
    let later = now_ms() + 3_600_000;
    let errors = marked(|| {
        let mut reclaimer = Reclaimer::new(config, false, later);
        let passed = reclaimer.pass(Trigger::Start, &[], later);
        reclaimer.keep(later);
        passed.report.errors.len()
    });
    ensure!(
        mapped.is_some() && store.contains(&object(ALSO_THERE)),
        "lost"
    );
    let left = store.objects()?.objects.len();
    Ok(("passed".into(), format!("{errors} errors, {left} left")))
}

#[expect(clippy::unnecessary_wraps, reason = "what most scenarios end with")]
fn done(result: impl Debug) -> anyhow::Result<Done> {
    Ok((format!("{result:?}"), String::new()))
}

fn scan(store: &Store) -> anyhow::Result<Done> {
    let counts = marked(|| {
        let objects = store.objects()?;
        // How many there are is not exact while other processes lock and unlock.
        Holders::read()?;
        store.usage()?;
        Ok::<_, anyhow::Error>([
            objects.objects.len(),
            objects.foreign.len(),
            store.manifests()?.len(),
            store.derived_records()?.len(),
            store.identities()?.len(),
            store.quarantined()?.objects.len(),
        ])
    })?;
    done(counts)
}

fn records(store: &Store) -> anyhow::Result<Done> {
    let manifests = [object(THERE), object(ALSO_THERE)].map(|object| Manifest {
        kind: ManifestKind::File,
        source_size: object.len,
        data_start: 0,
        header_digest: Digest::of(b""),
        metadata: Vec::new(),
        objects: vec![ManifestObject {
            object,
            kind: ObjectKind::File,
        }],
        tensors: Vec::new(),
    });
    let key = IdentityKey {
        kind: ManifestKind::File,
        by: IdentityBy::Sha256 {
            digest: [3; 32],
            size: 3,
        },
    };
    let derived = DerivedKey::new(TensorId::of(b"source"), "transform", 1)?;
    let wait = Duration::from_secs(1);
    let made = marked(|| {
        let mut records = Vec::new();
        for manifest in &manifests {
            let id = store.publish_manifest(manifest)?;
            store.bind(&key, id)?;
            let bound = store.look_up(&key)?;
            records.push(bound == Some(id) && store.manifest(id)?.as_ref() == Some(manifest));
        }
        for _ in 0..2 {
            let make = || Ok::<_, Infallible>(bytes(9_104, 700));
            let made = store.get_or_create(&derived, Access::ReadOnly, wait, make);
            let made = made.map_err(|error| error.publish().0)?;
            records.push(*made.mapping == bytes(9_104, 700)[..]);
        }
        Ok::<_, anyhow::Error>(records)
    })?;
    done(made)
}

fn load(job: &Job) -> anyhow::Result<Done> {
    let options = LoadOptions::default().with_threads(NonZeroUsize::new(1));
    let agent = Agent::open_store(&job.store)?;
    if job.scenario == Scenario::WholeFile {
        let shared = marked(|| agent.share_file(&job.model, &options))?;
        let right = std::fs::read(shared.path())? == std::fs::read(&job.model)?;
        return Ok((
            format!("right {right}"),
            format!("{:?}", shared.is_shared()),
        ));
    }
    if job.scenario == Scenario::SidecarWrite {
        let manifests = agent.manifests(&job.model, ManifestKind::Safetensors, &options)?;
        let (_, manifest) = manifests.first().context("a manifest")?;
        marked(|| sidecar::write(&job.model, manifest))?;
        return done("written");
    }
    let model = marked(|| agent.load_with(&job.model, &options))?;
    Ok((fingerprint(&model)?, quality(&model)))
}

fn quality(model: &Model) -> String {
    let report = model.report();
    format!("{:?}, {} private", report.recognized, report.bytes_private)
}
