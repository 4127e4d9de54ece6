//! `tetris show`: one object, manifest, derived record or model in full.

use std::collections::{BTreeMap, HashSet};
use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use tetris_agent::Store;
use tetris_cli::holders::{HolderProcess, HolderProcesses};
use tetris_store_layout::{
    DerivedId, Manifest, ManifestId, ManifestTensor, ObjectEntry, ObjectRef, StoreError,
};
use tetris_units::size::Bytes;

use super::counts::HolderCounts;
use super::error::{Error, Result};
use super::exit::Code;
use super::holding;
use super::layouts;
use super::loading::{kind_name, lossy};
use super::lookup::{self, StoreEntry, find, short};
use super::model_row;
use super::output::{self, Output};
use super::present::Present;
use super::table::{Side, Table};
use super::time::{ago, unix_s};
use tetris_agent::store_location::StoreLocation;

/// Arguments of `show`.
#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// The first digits of an id, at least 4, or a model's path
    #[arg(value_name = "ID|MODEL")]
    what: PathBuf,
}

/// Runs `show`.
pub(crate) fn run(args: &ShowArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let text = args.what.to_string_lossy();
    if !args.what.exists() && lookup::is_prefix(&text) {
        let store = location.open()?;
        return match find(&store, &text)? {
            StoreEntry::Object(entry) => object(&store, &entry, out),
            StoreEntry::Derived(id) => derived(&store, id, out),
            StoreEntry::Manifest(id) => {
                let manifest = lookup::manifest(&store, id)?;
                models(Some(store), &[(None, manifest)], out)
            }
        };
    }
    let manifests = lookup::manifests(&args.what, location)?.into_iter();
    let manifests: Vec<_> = manifests
        .map(|(path, manifest)| (Some(path), manifest))
        .collect();
    models(location.open().ok(), &manifests, out)
}

/// The manifests that use an object, and as what.
fn used_by(store: &Store, entry: &ObjectEntry) -> Result<Vec<(ManifestId, &'static str)>> {
    let mut users = Vec::new();
    for record in store.manifests()? {
        let manifest = match store.manifest(record.id) {
            Ok(Some(manifest)) => manifest,
            Ok(None) | Err(StoreError::Record { .. }) => continue,
            Err(error) if error.is_leased() => {
                output::warning(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut objects = manifest.objects.iter();
        if let Some(used) = objects.find(|used| used.object == entry.object) {
            users.push((record.id, used.kind.name()));
        }
    }
    users.sort_unstable();
    Ok(users)
}

fn object(store: &Store, entry: &ObjectEntry, out: &mut Output) -> Result {
    let counts = HolderCounts::of(store, [entry])?;
    let holders = counts.number(entry);
    let in_use: &[ObjectEntry] = if holders > 0 { &[*entry] } else { &[] };
    let processes = holding::search(in_use)?;
    let users = used_by(store, entry)?;
    let path = store.object_path(&entry.object);
    if out.is_json() {
        let users: Vec<Value> = users
            .iter()
            .map(|(id, kind)| json!({ "manifest": id.to_string(), "as": kind }))
            .collect();
        return out.json(&json!({ "object": {
            "id": entry.object.id.to_string(),
            "crc": format!("{:08x}", entry.object.crc),
            "bytes": entry.object.len,
            "allocated_bytes": entry.allocated,
            "holders": holders,
            "published_s": unix_s(entry.published),
            "path": lossy(&path),
            "used_by": users,
            "processes": holding::documents(processes.processes.iter()),
            "processes_hidden": processes.hidden,
            "processes_skipped": processes.skipped,
        }}));
    }
    let mut fields = vec![
        ("object", entry.object.id.to_string()),
        ("crc", format!("{:08x}", entry.object.crc)),
        ("bytes", exact(entry.object.len)),
        ("in memory", exact(entry.allocated)),
        ("holders", holders.to_string()),
        ("published", ago(entry.published)),
        ("path", path.display().to_string()),
    ];
    for (id, kind) in &users {
        fields.push(("used by", format!("manifest {id} as {kind}")));
    }
    if users.is_empty() {
        fields.push(("used by", "no manifest".into()));
    }
    out.fields(&fields)?;
    holding::print(processes.processes.iter(), out)?;
    out.flush()?;
    holding::note_unseen(&processes);
    counts.note();
    Ok(())
}

fn derived(store: &Store, id: DerivedId, out: &mut Output) -> Result {
    let gone = || Error::message(Code::Failed, format_args!("derived record {id} is gone"));
    let record = store.derived_record(id)?.ok_or_else(gone)?;
    if record.is_layout() {
        return layouts::show(store, &record, out);
    }
    let in_store = store.contains(&record.object);
    if out.is_json() {
        return out.json(&json!({ "derived": {
            "id": id.to_string(),
            "transform": record.key.transform(),
            "version": record.key.version(),
            "source": record.key.source().to_string(),
            "object": record.object.id.to_string(),
            "bytes": record.object.len,
            "in_store": in_store,
        }}));
    }
    out.fields(&[
        ("derived", id.to_string()),
        ("transform", record.key.transform().to_owned()),
        ("version", record.key.version().to_string()),
        ("source tensor", record.key.source().to_string()),
        ("object", record.object.id.to_string()),
        ("bytes", exact(record.object.len)),
        ("in store", if in_store { "yes" } else { "no" }.into()),
    ])
}

/// A manifest, and the file that it was found by.
type Shown = (Option<PathBuf>, Manifest);

/// The store as `show` needs it for models.
struct Around {
    store: Store,
    present: Present,
    found: HolderProcesses,
}

impl Around {
    /// The state of `store`, with the processes that hold objects of the models that are `shown`.
    fn of(store: Store, shown: &[Shown]) -> Result<Self> {
        let present = Present::of(&store)?;
        let objects = shown.iter().flat_map(|(_, manifest)| &manifest.objects);
        let wanted: HashSet<ObjectRef> = objects.map(|entry| entry.object).collect();
        let wanted_objects = wanted.iter().filter_map(|object| present.get(object));
        let in_use = wanted_objects.filter(|entry| present.holders(&entry.object) > 0);
        let processes = holding::search(&in_use.copied().collect::<Vec<_>>())?;
        Ok(Self {
            store,
            present,
            found: processes,
        })
    }

    /// The processes that hold objects of the model, each with those objects.
    fn holding(&self, manifest: &Manifest) -> Vec<HolderProcess> {
        let objects = manifest.objects.iter().map(|entry| entry.object);
        self.found.among(objects)
    }
}

fn models(store: Option<Store>, shown: &[Shown], out: &mut Output) -> Result {
    let around = store.map(|store| Around::of(store, shown)).transpose()?;
    let around = around.as_ref();
    if out.is_json() {
        let models: Vec<Value> = shown
            .iter()
            .map(|shown| model_json(around, shown))
            .collect();
        return out.json(&json!({
            "manifests": models,
            "processes_hidden": around.map_or(0, |around| around.found.hidden),
            "processes_skipped": around.map_or(0, |around| around.found.skipped),
        }));
    }
    for (index, model) in shown.iter().enumerate() {
        if index > 0 {
            out.line("")?;
        }
        model_text(around, model, out)?;
    }
    if let Some(around) = around {
        out.flush()?;
        holding::note_unseen(&around.found);
        around.present.counts().note();
    }
    Ok(())
}

fn model_json(around: Option<&Around>, (path, manifest): &Shown) -> Value {
    let present = around.map(|around| &around.present);
    let last_path = around.and_then(|around| around.store.last_path(manifest.id()));
    let processes = around.map_or_else(Vec::new, |around| around.holding(manifest));
    let objects: Vec<Value> = manifest
        .objects
        .iter()
        .map(|entry| {
            json!({
                "id": entry.object.id.to_string(),
                "crc": format!("{:08x}", entry.object.crc),
                "bytes": entry.object.len,
                "kind": entry.kind.name(),
                "in_store": present.is_some_and(|p| p.get(&entry.object).is_some()),
                "holders": present.map_or(0, |p| p.holders(&entry.object)),
            })
        })
        .collect();
    let tensors: Vec<Value> = manifest
        .tensors
        .iter()
        .map(|tensor| {
            json!({
                "name": tensor.name,
                "dtype": tensor.dtype.name(),
                "shape": tensor.shape,
                "bytes": tensor.len,
                "id": tensor.id.to_string(),
                "object": tensor.place.map(|place| place.object),
                "offset": tensor.place.map(|place| place.offset),
            })
        })
        .collect();
    let metadata: BTreeMap<&str, &str> = manifest
        .metadata
        .iter()
        .map(|(key, value)| (key.as_str(), value.as_str()))
        .collect();
    json!({
        "id": manifest.id().to_string(),
        "file": path.as_deref().map(lossy),
        "last_path": last_path.map(|last| lossy(&last.path)),
        "kind": kind_name(manifest.kind),
        "source_bytes": manifest.source_size,
        "bytes": manifest.object_bytes(),
        "resident_bytes": present.map_or(0, |p| p.resident(manifest)),
        "holders": present.map_or(0, |p| p.model_holders(manifest)),
        "processes": holding::documents(processes.iter()),
        "metadata": metadata,
        "objects": objects,
        "tensors": tensors,
    })
}

fn model_text(around: Option<&Around>, (path, manifest): &Shown, out: &mut Output) -> Result {
    let present = around.map(|around| &around.present);
    let mut fields = vec![
        ("manifest", manifest.id().to_string()),
        ("kind", kind_name(manifest.kind).to_owned()),
        ("file size", exact(manifest.source_size)),
        (
            "objects",
            format!(
                "{}, {}",
                manifest.objects.len(),
                exact(manifest.object_bytes())
            ),
        ),
    ];
    if let Some(path) = path {
        fields.insert(1, ("file", path.display().to_string()));
    } else if let Some(last) = around.and_then(|around| around.store.last_path(manifest.id())) {
        fields.insert(1, ("last path", model_row::in_words(Some(&last))));
    }
    match present {
        Some(present) => {
            fields.push(("in store", exact(present.resident(manifest))));
            fields.push(("holders", present.model_holders(manifest).to_string()));
        }
        None => fields.push(("in store", "there is no store".into())),
    }
    for (key, value) in &manifest.metadata {
        fields.push(("metadata", format!("{key} = {value}")));
    }
    out.fields(&fields)?;
    if let Some(around) = around {
        holding::print(around.holding(manifest).iter(), out)?;
    }
    out.line("")?;
    if manifest.tensors.is_empty() {
        return objects_of(manifest, present).print(out, "no objects");
    }
    tensors_of(manifest).print(out, "no tensors")
}

fn objects_of(manifest: &Manifest, present: Option<&Present>) -> Table {
    let mut table = Table::new(&[
        ("OBJECT", Side::Left),
        ("KIND", Side::Left),
        ("BYTES", Side::Right),
        ("IN STORE", Side::Left),
    ]);
    for entry in &manifest.objects {
        let in_store = present.is_some_and(|p| p.get(&entry.object).is_some());
        table.row([
            short(entry.object.id),
            entry.kind.name().into(),
            Bytes(entry.object.len).to_string(),
            if in_store { "yes" } else { "no" }.into(),
        ]);
    }
    table
}

fn tensors_of(manifest: &Manifest) -> Table {
    let mut table = Table::new(&[
        ("TENSOR", Side::Left),
        ("DTYPE", Side::Left),
        ("SHAPE", Side::Left),
        ("BYTES", Side::Right),
        ("OBJECT", Side::Left),
        ("OFFSET", Side::Right),
    ]);
    for tensor in &manifest.tensors {
        let (object, offset) = place_of(manifest, tensor);
        let dims: Vec<String> = tensor.shape.iter().map(u64::to_string).collect();
        table.row([
            tensor.name.clone(),
            tensor.dtype.name().into(),
            format!("[{}]", dims.join(", ")),
            Bytes(tensor.len).to_string(),
            object,
            offset,
        ]);
    }
    table
}

fn place_of(manifest: &Manifest, tensor: &ManifestTensor) -> (String, String) {
    let object = |index: u32| manifest.objects.get(index as usize);
    match tensor.place {
        Some(place) => (
            object(place.object).map_or_else(String::new, |entry| {
                let id = short(entry.object.id);
                format!("{id} ({})", entry.kind.name())
            }),
            place.offset.to_string(),
        ),
        None => ("-".into(), "-".into()),
    }
}

/// Bytes rounded and exact, in a place where one number stands alone.
fn exact(bytes: u64) -> String {
    match bytes {
        0..1024 => Bytes(bytes).to_string(),
        _ => format!("{} ({bytes} bytes)", Bytes(bytes)),
    }
}
