//! Limits of the objects of models: of those that clients hold, and of those that are mapped for copies.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::residency::TenantId;

/// Number of objects of all tenants' models.
///
/// A tenant may have as many as it leaves free. So one takes half of them, and there are always some left for the next.
#[derive(Debug)]
pub(super) struct ObjectLimit {
    most: usize,
    taken: Mutex<BTreeMap<TenantId, usize>>,
}

/// Objects of one model, given back on drop.
#[derive(Debug)]
pub(super) struct ObjectPermit {
    limit: Arc<ObjectLimit>,
    tenant: TenantId,
    count: usize,
}

/// The number of objects that a tenant may have besides those that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TooManyObjects {
    pub free: usize,
}

impl ObjectLimit {
    pub fn new(most: usize) -> Self {
        Self {
            most,
            taken: Mutex::default(),
        }
    }

    /// A permit of a tenant, for no objects yet.
    pub fn permit(self: &Arc<Self>, tenant: TenantId) -> ObjectPermit {
        ObjectPermit {
            limit: Arc::clone(self),
            tenant,
            count: 0,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<TenantId, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectPermit {
    /// Extends the permit to `count` objects, if it is for fewer.
    pub fn grow_to(&mut self, count: usize) -> Result<(), TooManyObjects> {
        let more = count.saturating_sub(self.count);
        let mut taken = self.limit.lock();
        let all = taken
            .values()
            .fold(0, |sum: usize, of| sum.saturating_add(*of));
        let objects = taken.entry(self.tenant).or_default();
        // What it has afterwards is at most what is free then.
        let free = self.limit.most.saturating_sub(all).saturating_sub(*objects) / 2;
        if more > free {
            return Err(TooManyObjects { free });
        }
        *objects = objects.saturating_add(more);
        self.count = self.count.max(count);
        Ok(())
    }
}

impl Drop for ObjectPermit {
    fn drop(&mut self) {
        let mut taken = self.limit.lock();
        if let Some(own) = taken.get_mut(&self.tenant) {
            *own = own.saturating_sub(self.count);
            if *own == 0 {
                taken.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: TenantId = TenantId(1);
    const SECOND: TenantId = TenantId(2);

    #[test]
    fn a_tenant_has_as_many_as_it_leaves_free_and_gives_them_back() {
        let limit = Arc::new(ObjectLimit::new(100));
        let mut first = limit.permit(FIRST);
        assert_eq!(first.grow_to(51), Err(TooManyObjects { free: 50 }));
        assert_eq!(first.grow_to(40), Ok(()));
        assert_eq!(first.grow_to(30), Ok(()), "it has more");
        let mut again = limit.permit(FIRST);
        assert_eq!(again.grow_to(11), Err(TooManyObjects { free: 10 }));
        let mut second = limit.permit(SECOND);
        assert_eq!(second.grow_to(30), Ok(()));
        assert_eq!(again.grow_to(1), Err(TooManyObjects { free: 0 }));
        drop(first);
        assert_eq!(again.grow_to(35), Ok(()));
        drop((again, second));
        assert!(limit.lock().is_empty());
    }
}
