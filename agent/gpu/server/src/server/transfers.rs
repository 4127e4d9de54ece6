//! Transfers to a device that have not ended: those that run, and those that wait for their turn.

use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;

use crate::residency::{Copy, ModelKey, TenantId};

/// A transfer that has not ended.
#[derive(Debug)]
struct Transfer {
    number: u64,
    tenant: TenantId,
    model: ModelKey,
    /// Lengths of the objects that have not arrived, in bytes.
    left: BTreeMap<ObjectId, u64>,
}

/// Transfers to a device, in the order of their admissions.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    list: Vec<Transfer>,
    next: u64,
}

/// Bytes that are on their way to a device.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct BytesLeft {
    /// Of models of the tenant asked for, in the order of admissions.
    pub named: Vec<(ModelKey, u64)>,
    /// Of all others.
    pub others: u64,
}

impl Transfers {
    /// Records a transfer. Returns its number.
    pub fn begin(&mut self, tenant: TenantId, model: ModelKey, copies: &[Copy]) -> u64 {
        self.next += 1;
        let left = copies.iter().map(|copy| (copy.object, copy.place.len));
        self.list.push(Transfer {
            number: self.next,
            tenant,
            model,
            left: left.collect(),
        });
        self.next
    }

    /// Records the arrival of an object.
    pub fn arrived(&mut self, tenant: TenantId, object: &ObjectId) {
        let mut transfers = self.list.iter_mut().filter(|entry| entry.tenant == tenant);
        let _arrived = transfers.find_map(|transfer| transfer.left.remove(object));
    }

    /// Records the end of a transfer.
    pub fn end(&mut self, number: u64) {
        self.list.retain(|transfer| transfer.number != number);
    }

    /// Forgets all transfers.
    pub fn clear(&mut self) {
        self.list.clear();
    }

    /// Number of bytes on their way, of all tenants.
    pub fn bytes(&self) -> u64 {
        let left = self.list.iter().flat_map(|transfer| transfer.left.values());
        left.sum()
    }

    /// Bytes on their way, by models of `tenant` that `is_named` names.
    pub fn bytes_left(&self, tenant: TenantId, is_named: impl Fn(&ModelKey) -> bool) -> BytesLeft {
        let mut found = BytesLeft::default();
        for transfer in &self.list {
            let bytes: u64 = transfer.left.values().sum();
            if transfer.tenant != tenant || !is_named(&transfer.model) {
                found.others += bytes;
                continue;
            }
            let mut named = found.named.iter_mut();
            match named.find(|(model, _)| *model == transfer.model) {
                Some((_, left)) => *left += bytes,
                None => found.named.push((transfer.model, bytes)),
            }
        }
        found.named.retain(|(_, bytes)| *bytes > 0);
        found
    }
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::Digest;

    use super::*;
    use crate::arena::{ChunkId, ObjectPlace};

    fn copies(names: &[(&str, u64)]) -> Vec<Copy> {
        let copy = |&(name, len): &(&str, u64)| Copy {
            object: ObjectId::of(name.as_bytes()),
            place: ObjectPlace {
                chunk: ChunkId(0),
                offset: 0,
                len,
            },
        };
        names.iter().map(copy).collect()
    }

    fn key(name: &str) -> ModelKey {
        ModelKey(Digest::of(name.as_bytes()))
    }

    #[test]
    fn only_named_models_of_the_tenant_are_told_apart() {
        let (own, foreign) = (TenantId(1), TenantId(2));
        let mut transfers = Transfers::default();
        let first = transfers.begin(own, key("a"), &copies(&[("x", 10), ("y", 5)]));
        transfers.begin(foreign, key("a"), &copies(&[("x", 100)]));
        transfers.begin(own, key("b"), &copies(&[("z", 1000)]));
        transfers.begin(own, key("a"), &copies(&[("w", 3)]));
        transfers.arrived(own, &ObjectId::of(b"x"));
        let named = |model: &ModelKey| *model == key("a");
        let expected = BytesLeft {
            named: vec![(key("a"), 8)],
            others: 1100,
        };
        assert_eq!(transfers.bytes_left(own, named), expected);
        assert_eq!(transfers.bytes(), 1108);
        transfers.end(first);
        let left = transfers.bytes_left(own, named);
        assert_eq!(left.named, [(key("a"), 3)]);
        transfers.clear();
        assert_eq!(transfers.bytes_left(own, named), BytesLeft::default());
    }
}
