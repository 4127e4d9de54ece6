//! Layouts, in `tetris ls` and `tetris show`.

use std::cmp::Reverse;

use serde_json::{Value, json};
use tetris_agent::Store;
use tetris_store_layout::{DerivedId, DerivedRecord, Layout, RecordEntry};
use tetris_units::size::Bytes;

use super::error::Result;
use super::lookup::short;
use super::output::{self, Output};
use super::table::{Side, Table};
use super::time::{ago, unix_s};

/// Begin of the names of layouts' transforms, which a list of layouts need not repeat.
const PREFIX: &str = "layout ";

/// A layout's record; its table, if that is in the store and sound.
struct LayoutRow {
    entry: RecordEntry<DerivedId>,
    record: DerivedRecord,
    layout: Option<Layout>,
}

impl LayoutRow {
    fn transform(&self) -> &str {
        let transform = self.record.key.transform();
        transform.strip_prefix(PREFIX).unwrap_or(transform)
    }

    fn tensors(&self) -> usize {
        self.layout
            .as_ref()
            .map_or(0, |layout| layout.tensors.len())
    }

    fn bytes(&self) -> u64 {
        self.layout.as_ref().map_or(0, Layout::object_bytes)
    }

    /// Bytes of its objects that are in the store.
    fn resident(&self, store: &Store) -> u64 {
        let objects = self.layout.iter().flat_map(|layout| &layout.objects);
        let present = objects.filter(|object| store.contains(object));
        present
            .map(|object| object.len)
            .fold(0, u64::saturating_add)
    }
}

/// Prints the layouts of `store`, the latest use first.
pub(super) fn list(store: &Store, out: &mut Output) -> Result {
    let mut rows = Vec::new();
    for entry in store.derived_records()? {
        match store.derived_record(entry.id) {
            Ok(Some(record)) if record.is_layout() => {
                let layout = table(store, &record);
                rows.push(LayoutRow {
                    entry,
                    record,
                    layout,
                });
            }
            Ok(_) => {}
            Err(error) => output::warning(error),
        }
    }
    rows.sort_by_key(|row| (Reverse(row.entry.last_used), row.entry.id));
    if out.is_json() {
        let document = |row: &LayoutRow| {
            json!({
                "id": row.entry.id.to_string(),
                "transform": row.transform(),
                "version": row.record.key.version(),
                "domain": row.record.key.domain().to_string(),
                "object": row.record.object.id.to_string(),
                "tensors": row.tensors(),
                "bytes": row.bytes(),
                "bytes_in_store": row.resident(store),
                "last_used_s": unix_s(row.entry.last_used),
            })
        };
        let rows: Vec<Value> = rows.iter().map(document).collect();
        return out.json(&json!({ "layouts": rows }));
    }
    let mut table = Table::new(&[
        ("LAYOUT", Side::Left),
        ("TENSORS", Side::Right),
        ("BYTES", Side::Right),
        ("IN STORE", Side::Right),
        ("LAST USED", Side::Right),
        ("DOMAIN", Side::Left),
        ("TRANSFORM", Side::Left),
    ]);
    for row in &rows {
        table.row([
            short(row.entry.id),
            row.tensors().to_string(),
            Bytes(row.bytes()).to_string(),
            Bytes(row.resident(store)).to_string(),
            ago(row.entry.last_used),
            row.record.key.domain().to_string(),
            format!("{} v{}", row.transform(), row.record.key.version()),
        ]);
    }
    table.print(out, "no layouts; engines make them when they load a model")
}

/// The table that a record names, with a warning if it is damaged.
pub(super) fn table(store: &Store, record: &DerivedRecord) -> Option<Layout> {
    store.layout(&record.object).unwrap_or_else(|error| {
        output::warning(format_args!("layout {}: {error}", record.key.id()));
        None
    })
}

/// Prints one layout in full.
pub(super) fn show(store: &Store, record: &DerivedRecord, out: &mut Output) -> Result {
    let id = record.key.id();
    let layout = table(store, record);
    let transform = record.key.transform();
    let transform = transform.strip_prefix(PREFIX).unwrap_or(transform);
    let attributes = layout.iter().flat_map(|layout| &layout.attributes);
    if out.is_json() {
        let attribute =
            |(key, value): (&String, &Vec<u8>)| json!({ "key": key, "bytes": value.len() });
        let attributes: Vec<Value> = attributes.map(attribute).collect();
        return out.json(&json!({ "layout": {
            "id": id.to_string(),
            "transform": transform,
            "version": record.key.version(),
            "domain": record.key.domain().to_string(),
            "object": record.object.id.to_string(),
            "in_store": layout.is_some(),
            "sources": layout.as_ref().map_or(0, |layout| layout.sources.len()),
            "tensors": layout.as_ref().map(|layout| tensors(store, layout)).unwrap_or_default(),
            "attributes": attributes,
        }}));
    }
    let mut fields = vec![
        ("layout", id.to_string()),
        ("transform", transform.to_owned()),
        ("version", record.key.version().to_string()),
        ("trust domain", record.key.domain().to_string()),
        ("table", record.object.id.to_string()),
    ];
    let Some(layout) = &layout else {
        fields.push(("in store", "no".into()));
        return out.fields(&fields);
    };
    fields.push(("sources", format!("{} tensors", layout.sources.len())));
    for (key, value) in attributes {
        fields.push((
            "attribute",
            format!("{}, {} bytes", key.escape_debug(), value.len()),
        ));
    }
    out.fields(&fields)?;
    let mut rows = Table::new(&[
        ("TENSOR", Side::Left),
        ("DTYPE", Side::Left),
        ("SHAPE", Side::Left),
        ("OBJECT", Side::Left),
        ("OFFSET", Side::Right),
        ("ALIAS OF", Side::Left),
    ]);
    for tensor in &layout.tensors {
        let place = tensor.place;
        let object = place.and_then(|place| layout.objects.get(place.object as usize));
        let alias = tensor
            .alias
            .and_then(|alias| layout.tensors.get(alias as usize));
        rows.row([
            tensor.name.escape_debug().to_string(),
            tensor.dtype.to_string(),
            format!("{:?}", tensor.shape),
            object.map(|object| short(object.id)).unwrap_or_default(),
            place
                .map(|place| place.offset.to_string())
                .unwrap_or_default(),
            alias
                .map(|alias| alias.name.escape_debug().to_string())
                .unwrap_or_default(),
        ]);
    }
    rows.print(out, "no tensors")
}

fn tensors(store: &Store, layout: &Layout) -> Vec<Value> {
    let tensors = layout.tensors.iter().map(|tensor| {
        let place = tensor.place;
        let object = place.and_then(|place| layout.objects.get(place.object as usize));
        let alias = tensor
            .alias
            .and_then(|alias| layout.tensors.get(alias as usize));
        json!({
            "name": tensor.name,
            "dtype": tensor.dtype.name(),
            "shape": tensor.shape,
            "strides": tensor.strides,
            "object": object.map(|object| object.id.to_string()),
            "offset": place.map(|place| place.offset),
            "alias_of": alias.map(|alias| alias.name.as_str()),
            "in_store": object.is_none_or(|object| store.contains(object)),
        })
    });
    tensors.collect()
}
