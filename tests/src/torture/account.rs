//! Counts of the daemon, compared with those found without it: by listing folders, by sizes of files, and by what the
//! processes say that they hold.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, ensure};
use tetris_node::config::ConfigFile;
use tetris_node::engine::Reclaimer;
use tetris_node::report::{Amount, NodeStatus, ObjectState, StoreStatus, Trigger};
use tetris_store_layout::{Holders, ObjectRef, Store, Usage};

/// `/proc/locks` is handed out in pages: while others on the machine take and drop locks, one look can be wrong.
const DEADLINE: Duration = Duration::from_secs(20);

/// References to each object, by its file's name.
pub(super) type References = BTreeMap<String, u64>;

/// A store's state, as far as both sides know it.
#[derive(Debug, PartialEq)]
struct Account {
    usage: Usage,
    states: BTreeMap<ObjectState, Amount>,
    holders: u64,
    saved_bytes: u64,
    /// Length of all objects of each model, of those that are there, and of those that are held.
    models: BTreeMap<String, (u64, u64, u64)>,
}

/// Checks that the daemon would count just these references, and everything else as the file system has it.
pub(super) fn require_true(
    store: &Store,
    config: &Path,
    references: &References,
) -> anyhow::Result<()> {
    let config = ConfigFile::read(config)?.check()?;
    let since = Instant::now();
    loop {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis() as u64;
        let mut reclaimer = Reclaimer::new(config.clone(), true, now);
        let mut passed = reclaimer.pass(Trigger::Start, &[], now);
        ensure!(
            passed.report.errors.is_empty(),
            "{:?}",
            passed.report.errors
        );
        passed.status.count_holders(&Holders::read()?);
        let counted = Account::of_daemon(&passed.status)?;
        let actual = Account::of_files(store, references)?;
        if counted == actual {
            return Ok(());
        }
        ensure!(
            since.elapsed() < DEADLINE,
            "the daemon counts {counted:#?}\nfound are {actual:#?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

impl Account {
    fn of_daemon(status: &NodeStatus) -> anyhow::Result<Self> {
        let [store] = &status.stores[..] else {
            anyhow::bail!("{} stores", status.stores.len());
        };
        let [mount] = &status.mounts[..] else {
            anyhow::bail!("{} mounts", status.mounts.len());
        };
        let StoreStatus { error, foreign, .. } = store;
        ensure!(error.is_none() && foreign.is_empty(), "{store:?}");
        let models = store.models.iter().map(|model| {
            let bytes = (model.total_bytes, model.resident_bytes, model.held_bytes);
            (model.id.clone(), bytes)
        });
        Ok(Self {
            usage: Usage {
                capacity: mount.capacity_bytes,
                free: mount.free_bytes,
                inodes: mount.inodes,
                inodes_free: mount.inodes_free,
            },
            states: store.states.clone(),
            holders: store.holders,
            saved_bytes: store.saved_bytes,
            models: models.collect(),
        })
    }

    fn of_files(store: &Store, references: &References) -> anyhow::Result<Self> {
        let mut account = Self {
            usage: store.usage()?,
            states: BTreeMap::new(),
            holders: 0,
            saved_bytes: 0,
            models: models(store, references)?,
        };
        let mut referenced = 0;
        for entry in std::fs::read_dir(store.objects_dir())? {
            let entry = entry?;
            let name = entry.file_name().into_string().ok().context("a name")?;
            let bytes = entry.metadata()?.blocks() * 512;
            let holders = references.get(&name).copied().unwrap_or(0);
            let state = match holders {
                0 => ObjectState::Idle,
                _ => ObjectState::Held,
            };
            let amount = account.states.entry(state).or_default();
            amount.objects += 1;
            amount.bytes += bytes;
            account.holders += holders;
            account.saved_bytes += bytes * holders.saturating_sub(1);
            referenced += usize::from(holders > 0);
        }
        ensure!(
            referenced == references.len(),
            "INV-3: {} objects are held, {referenced} of them have a name",
            references.len()
        );
        Ok(account)
    }
}

fn models(
    store: &Store,
    references: &References,
) -> anyhow::Result<BTreeMap<String, (u64, u64, u64)>> {
    let bytes_of = |objects: Vec<ObjectRef>| {
        let by_name = objects.iter().map(|object| (object.file_name(), object));
        let unique: BTreeMap<String, &ObjectRef> = by_name.collect();
        let mut bytes = (0, 0, 0);
        for (name, object) in unique {
            bytes.0 += object.len;
            if store.object_path(object).exists() {
                bytes.1 += object.len;
            }
            if references.contains_key(&name) {
                bytes.2 += object.len;
            }
        }
        bytes
    };
    let mut models = BTreeMap::new();
    for record in store.manifests()? {
        let manifest = store.manifest(record.id)?.context("a manifest is gone")?;
        let objects = manifest.objects.iter().map(|entry| entry.object);
        models.insert(
            format!("manifest-{}", record.id),
            bytes_of(objects.collect()),
        );
    }
    for record in store.derived_records()? {
        let derived = store
            .derived_record(record.id)?
            .context("a record is gone")?;
        models.insert(
            format!("derived-{}", record.id),
            bytes_of(vec![derived.object]),
        );
    }
    Ok(models)
}
