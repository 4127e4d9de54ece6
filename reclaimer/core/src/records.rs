//! Records that a store frees to stay within its limits for records.
//!
//! A record is a cache: a load that misses one reads its file again. So any record may go at any
//! time (LAYOUT.md 5.4), even the manifest of a mapped model: its tensors stay, and only the next
//! load of its file must hash it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tetris_store_layout::{DerivedId, IdentityId, ManifestId, RecordUse, TrustDomain};

/// The name of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordName {
    /// A model's manifest.
    Manifest(ManifestId),
    /// A tensor computed from another.
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
    /// The domain whose word it is; the store's owner for manifests and identities, which name none.
    pub domain: TrustDomain,
}

/// Memory and number of `records`.
pub fn record_use<'a>(records: impl IntoIterator<Item = &'a RecordFile>) -> RecordUse {
    let records = records.into_iter().map(|record| RecordUse {
        bytes: record.bytes,
        files: 1,
    });
    records.fold(RecordUse::default(), RecordUse::plus)
}

/// Records to remove so that the rest, with `more` that are about to be written, are within
/// `limits`. The trust domain with the most records loses first, so no domain loses any for one that
/// has more. Of a domain, unwanted records go first, the least recently used before the others. They
/// go until an eighth is free as well, so that not every load needs another pass.
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
    let mut holders = holders(records);
    let mut removed = Vec::new();
    loop {
        let enough = left.plus(more).is_within(limits);
        let (used, most) = if enough {
            (left, comfortable)
        } else {
            (left.plus(more), limits)
        };
        if used.is_within(most) {
            break;
        }
        let losers = holders.iter_mut().filter_map(|holder| {
            let next = holder.records.last()?;
            Some((holder.part_of_excess(used, most), !next.wanted, holder))
        });
        let loser = losers.max_by_key(|(part, is_unwanted, _)| (*part, *is_unwanted));
        let Some((_, is_unwanted, holder)) = loser else {
            break;
        };
        if enough && !is_unwanted {
            break;
        }
        let Some(record) = holder.lose() else {
            break;
        };
        left.bytes = left.bytes.saturating_sub(record.bytes);
        left.files = left.files.saturating_sub(1);
        removed.push(record.name);
    }
    removed
}

/// The records of one trust domain.
#[derive(Default)]
struct Holder<'a> {
    used: RecordUse,
    /// The records, of which the last goes first.
    records: Vec<&'a RecordFile>,
}

impl<'a> Holder<'a> {
    /// Its part of the limits that are exceeded, the larger one where both are.
    fn part_of_excess(&self, used: RecordUse, most: RecordUse) -> u128 {
        let part = |own: u64, used: u64, most: u64| {
            let part = (u128::from(own) << 32) / u128::from(most.max(1));
            if used > most { part } else { 0 }
        };
        let bytes = part(self.used.bytes, used.bytes, most.bytes);
        bytes.max(part(self.used.files, used.files, most.files))
    }

    fn lose(&mut self) -> Option<&'a RecordFile> {
        let record = self.records.pop()?;
        self.used.bytes = self.used.bytes.saturating_sub(record.bytes);
        self.used.files = self.used.files.saturating_sub(1);
        Some(record)
    }
}

fn holders(records: &[RecordFile]) -> Vec<Holder<'_>> {
    let mut holders: BTreeMap<TrustDomain, Holder<'_>> = BTreeMap::new();
    for record in records {
        let holder = holders.entry(record.domain).or_default();
        holder.used = holder.used.plus(RecordUse {
            bytes: record.bytes,
            files: 1,
        });
        holder.records.push(record);
    }
    let mut holders: Vec<_> = holders.into_values().collect();
    for holder in &mut holders {
        let order = |record: &&RecordFile| (record.wanted, record.last_use_ms, record.name);
        holder
            .records
            .sort_unstable_by_key(|record| Reverse(order(record)));
    }
    holders
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
            domain: TrustDomain::Owner,
        }
    }

    fn of_domain(domain: u32, number: u64, last_use_ms: u64, wanted: bool) -> RecordFile {
        RecordFile {
            domain: TrustDomain::User(domain),
            ..record(number, 10, last_use_ms, wanted)
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
        // What is wanted goes as well where it must: a large manifest held by one mapped
        // object pins nothing.
        assert_eq!(go(59), [name(2), name(1), name(0)]);
        assert_eq!(go(0), [name(2), name(1), name(0), name(3)]);
    }

    #[test]
    fn the_domain_with_the_most_records_loses_first_whatever_it_holds() {
        let few = (0..10).map(|number| of_domain(1, number, number, false));
        let many = (10..100).map(|number| of_domain(2, number, 1_000 + number, true));
        let records: Vec<_> = few.chain(many).collect();
        let removed = records_to_remove(&records, limits(u64::MAX, 50), limits(10, 1));
        let of_many = |name: &RecordName| records[10..].iter().any(|record| record.name == *name);
        assert!(removed.iter().all(of_many));
        assert_eq!(removed.len(), 51);
        // Once they are equal, they lose in turn.
        let removed = records_to_remove(&records, limits(u64::MAX, 8), RecordUse::default());
        let left = |domain: u32| {
            let of = records
                .iter()
                .filter(|record| record.domain == TrustDomain::User(domain));
            of.filter(|record| !removed.contains(&record.name)).count()
        };
        assert_eq!(left(1) + left(2), 7);
        assert!(left(1) >= 3, "{} and {}", left(1), left(2));
    }

    #[test]
    fn the_limit_that_is_exceeded_decides_which_domain_has_the_most() {
        let mut records: Vec<_> = (0..20)
            .map(|number| of_domain(1, number, 1, false))
            .collect();
        let large = RecordFile {
            bytes: 1_000,
            ..of_domain(2, 20, 9, true)
        };
        records.push(large);
        let removed = records_to_remove(&records, limits(1_000, 100), RecordUse::default());
        assert_eq!(removed, [large.name]);
        let removed = records_to_remove(&records, limits(10_000, 20), RecordUse::default());
        assert!(!removed.contains(&large.name));
    }

    proptest! {
        #[test]
        fn a_domain_within_its_part_of_the_files_loses_none(
            counts in prop::collection::vec(0..30_u64, 1..6),
            files in 1..100_u64,
        ) {
            let domains = (0..).zip(&counts).flat_map(|(domain, count)| {
                (0..*count).map(move |number| {
                    let number = u64::from(domain) * 100 + number;
                    of_domain(domain, number, number % 7, number % 3 == 0)
                })
            });
            let records: Vec<_> = domains.collect();
            let removed = records_to_remove(&records, limits(u64::MAX, files), RecordUse::default());
            let comfortable = files - files / 8;
            for (domain, count) in (0..).zip(&counts) {
                let of = records.iter().filter(|record| record.domain == TrustDomain::User(domain));
                let lost = of.filter(|record| removed.contains(&record.name)).count();
                prop_assert!(lost == 0 || *count > comfortable / counts.len() as u64);
            }
        }

        #[test]
        fn what_is_left_is_within_the_limits_and_no_more_goes_than_that_takes(
            sizes in prop::collection::vec((1..50_u64, 0..20_u64, any::<bool>(), 0..4_u32), 0..40),
            bytes in 0..800_u64,
            files in 0..40_u64,
            more in (0..100_u64, 0..3_u64),
        ) {
            let records: Vec<_> = (0..).zip(&sizes)
                .map(|(number, (bytes, at, wanted, domain))| RecordFile {
                    domain: TrustDomain::User(*domain),
                    ..record(number, *bytes, *at, *wanted)
                })
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
