//! The part of a model that the store has.

use std::collections::HashSet;
use std::path::Path;

use tetris_store_layout::ObjectRef;
use tetris_units::size::Bytes;

use super::file::{KnownAs, LookedFile};
use super::some_of;
use crate::doctor::check::Check;
use crate::doctor::store::{OpenStore, Publishing, SeenStore};

/// The bytes of some files that are in a store, and the tensors that are not.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Presence<'f> {
    /// Bytes of all objects.
    pub(super) total: u64,
    /// Bytes of objects that are there.
    pub(super) present: u64,
    /// Number of objects, as far as it is known.
    pub(super) objects: u64,
    /// Names of tensors that are not there, wholly or in part.
    pub(super) missing: Vec<&'f str>,
    /// Objects of the files that are there.
    pub(super) own: HashSet<ObjectRef>,
}

impl<'f> Presence<'f> {
    /// Of files that are worth sharing, in a store with these objects. A file that is not known counts
    /// as missing: some of its tensors may be there under another file.
    pub(super) fn of(files: &'f [LookedFile], store: &HashSet<ObjectRef>) -> Self {
        let mut presence = Self::default();
        for file in files.iter().filter(|file| file.not_worth.is_none()) {
            match &file.known {
                Some(known) => presence.add_known(known, store),
                None => presence.add_unknown(file),
            }
        }
        presence
    }

    /// Bytes that are not there.
    pub(super) fn missing_bytes(&self) -> u64 {
        self.total.saturating_sub(self.present)
    }

    fn add_known(&mut self, known: &'f KnownAs, store: &HashSet<ObjectRef>) {
        let manifest = &known.manifest;
        for entry in &manifest.objects {
            let object = entry.object;
            self.objects += 1;
            self.total = self.total.saturating_add(object.len);
            if store.contains(&object) {
                self.present = self.present.saturating_add(object.len);
                self.own.insert(object);
            }
        }
        for tensor in &manifest.tensors {
            let object = tensor
                .place
                .and_then(|place| manifest.objects.get(place.object as usize));
            if object.is_some_and(|entry| !store.contains(&entry.object)) {
                self.missing.push(&tensor.name);
            }
        }
    }

    fn add_unknown(&mut self, file: &'f LookedFile) {
        if file.tensors.is_empty() {
            self.objects += 1;
            self.total = self.total.saturating_add(file.size);
        }
        for tensor in file.tensors.iter().filter(|tensor| tensor.len > 0) {
            self.objects += 1;
            self.total = self.total.saturating_add(tensor.len);
            self.missing.push(&tensor.name);
        }
    }
}

/// The objects of an open store.
pub(super) fn objects_of(open: &OpenStore) -> HashSet<ObjectRef> {
    open.objects.iter().map(|entry| entry.object).collect()
}

/// The check of the part that is in the store.
pub(super) fn check(path: &Path, files: &[LookedFile], seen: &SeenStore) -> Check {
    let Some(open) = seen.open() else {
        return Check::note("in store", "nothing: there is no store that can be used");
    };
    let presence = Presence::of(files, &objects_of(open));
    let (present, total) = (Bytes(presence.present), Bytes(presence.total));
    let check = if presence.total == 0 {
        Check::note(
            "in store",
            "nothing of it belongs there: loads read it into private memory",
        )
    } else if presence.missing_bytes() == 0 {
        Check::ok(
            "in store",
            format!("all {total}, in {} objects", presence.objects),
        )
    } else {
        let names = some_of(&presence.missing);
        let found = if names.is_empty() {
            format!("{present} of {total}")
        } else {
            format!("{present} of {total}; missing: {names}")
        };
        let check = Check::note("in store", found);
        match open.publishing() {
            Publishing::Impossible => check,
            _ => check.remedy(format_args!(
                "run `tetris load {}`, or any program that loads it",
                path.display()
            )),
        }
    };
    check
        .fact("bytes", presence.total)
        .fact("present_bytes", presence.present)
        .fact("objects", presence.objects)
        .fact("missing_tensors", presence.missing.len())
}
