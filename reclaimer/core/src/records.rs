//! Records that a store frees to stay within its limits for records.
//!
//! A record is a cache: a load that misses one reads its file again. So any record may go at any
//! time (LAYOUT.md 5.4), even the manifest of a mapped model: its tensors stay, and only the next
//! load of its file must hash it.

use tetris_store_layout::{DerivedId, IdentityId, ManifestId, RecordUse};

/// The name of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordName {
    /// A model's manifest.
    Manifest(ManifestId),
    /// A tensor that was computed from another.
    Derived(DerivedId),
    /// The binding of a file's identity to a manifest.
    Identity(IdentityId),
}

/// A record of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFile {
    /// Its name, which breaks ties.
    pub name: RecordName,
    /// Memory that it occupies, in bytes.
    pub bytes: u64,
    /// Time of the last use by a load, in milliseconds; for an identity, the time of its binding.
    pub last_use_ms: u64,
    /// All that it names is held, or declared warm.
    pub wanted: bool,
}

/// Memory and number of `records`.
pub fn record_use<'a>(records: impl IntoIterator<Item = &'a RecordFile>) -> RecordUse {
    let each = records.into_iter().map(|record| RecordUse {
        bytes: record.bytes,
        files: 1,
    });
    each.fold(RecordUse::default(), RecordUse::plus)
}

/// Records to remove so that the rest, with `more` that are about to be written, are within
/// `limits`. Unwanted records go first, the least recently used before the others. They go until an
/// eighth is free as well, so that not every load needs another pass.
pub fn records_to_remove(
    records: &[RecordFile],
    limits: RecordUse,
    more: RecordUse,
) -> Vec<RecordName> {
    let mut left = record_use(records);
    if left.plus(more).is_within(limits) {
        return Vec::new();
    }
    let comfortable = RecordUse {
        bytes: limits.bytes - limits.bytes / 8,
        files: limits.files - limits.files / 8,
    };
    let mut order: Vec<&RecordFile> = records.iter().collect();
    order.sort_unstable_by_key(|record| (record.wanted, record.last_use_ms, record.name));
    let mut removed = Vec::new();
    for record in order {
        let enough = left.plus(more).is_within(limits);
        if enough && (record.wanted || left.is_within(comfortable)) {
            break;
        }
        left.bytes = left.bytes.saturating_sub(record.bytes);
        left.files = left.files.saturating_sub(1);
        removed.push(record.name);
    }
    removed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(number: u64, bytes: u64, last_use_ms: u64, wanted: bool) -> RecordFile {
        RecordFile {
            name: RecordName::Manifest(ManifestId::of(&number.to_le_bytes())),
            bytes,
            last_use_ms,
            wanted,
        }
    }

    fn limits(bytes: u64, files: u64) -> RecordUse {
        RecordUse { bytes, files }
    }

    #[test]
    fn nothing_goes_while_all_are_within_the_limits() {
        let records = [record(1, 40, 1, false), record(2, 60, 2, false)];
        let none = RecordUse::default();
        assert!(records_to_remove(&records, limits(100, 2), none).is_empty());
        let more = limits(1, 0);
        assert!(!records_to_remove(&records, limits(100, 2), more).is_empty());
        let more = limits(0, 1);
        assert!(!records_to_remove(&records, limits(100, 2), more).is_empty());
    }

    #[test]
    fn the_least_recently_used_go_first_and_what_is_wanted_last() {
        let records = [
            record(1, 30, 1, true),
            record(2, 30, 3, false),
            record(3, 30, 2, false),
            record(4, 30, 9, true),
        ];
        let name = |at: usize| records[at].name;
        let go = |bytes| records_to_remove(&records, limits(bytes, 10), RecordUse::default());
        assert_eq!(go(119), [name(2)]);
        assert_eq!(go(89), [name(2), name(1)]);
        // What is wanted goes as well where it must: a large manifest that is held by one mapped
        // object pins nothing.
        assert_eq!(go(59), [name(2), name(1), name(0)]);
        assert_eq!(go(0), [name(2), name(1), name(0), name(3)]);
    }

    proptest! {
        #[test]
        fn what_is_left_is_within_the_limits_and_no_more_goes_than_that_takes(
            sizes in prop::collection::vec((1..50_u64, 0..20_u64, any::<bool>()), 0..40),
            bytes in 0..800_u64,
            files in 0..40_u64,
            more in (0..100_u64, 0..3_u64),
        ) {
            let records: Vec<_> = (0..).zip(&sizes)
                .map(|(number, (bytes, at, wanted))| record(number, *bytes, *at, *wanted))
                .collect();
            let (limits, more) = (limits(bytes, files), limits(more.0, more.1));
            let removed = records_to_remove(&records, limits, more);
            let left = |except: Option<&RecordName>| {
                record_use(records.iter().filter(|record| {
                    Some(&record.name) == except || !removed.contains(&record.name)
                }))
            };
            prop_assert!(left(None).plus(more).is_within(limits) || removed.len() == records.len());
            // The last of the wanted was needed.
            let last = removed.last();
            let wanted = records.iter().any(|record| Some(&record.name) == last && record.wanted);
            if wanted {
                prop_assert!(!left(last).plus(more).is_within(limits));
            }
        }
    }
}
