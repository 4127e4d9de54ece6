//! The pages that files of the stores get, by file system: measured, and told when that changes.

use std::collections::BTreeSet;

use tetris_store_layout::Pages;

use super::Reclaimer;
use super::tenant::Tenant;

impl Reclaimer {
    /// Looks at file systems that were not looked at yet, or `again` at all: memory that was unbroken at the start may be in
    /// pieces later.
    pub(super) fn see_pages(&mut self, again: bool) {
        let devices: BTreeSet<_> = self.tenants.iter().map(Tenant::device).collect();
        self.pages.retain(|device, _| devices.contains(device));
        for device in devices {
            if !again && self.pages.contains_key(&device) {
                continue;
            }
            let on_it = |tenant: &&Tenant| tenant.device() == device;
            let Some(tenant) = self.tenants.iter().find(on_it) else {
                continue;
            };
            // What was seen earlier stays true of what was published then.
            if let Some(pages) = look(tenant, self.dry_run) {
                if self.pages.get(&device) != Some(&pages) {
                    tell(tenant, &pages);
                }
                self.pages.insert(device, pages);
            }
        }
    }
}

/// A dry run writes nothing, and a full store has no room: then objects that are there are looked at.
fn look(tenant: &Tenant, dry_run: bool) -> Option<Pages> {
    let objects = || {
        let objects = &tenant.catalog.listing().objects;
        tenant.store.object_pages(objects).ok().flatten()
    };
    if dry_run {
        return objects();
    }
    match tenant.store.probe_pages() {
        Ok(Some(pages)) => Some(pages),
        Ok(None) => objects(),
        Err(error) => {
            let store = tenant.config.name.as_str();
            tracing::debug!(store, %error, "pages cannot be looked at");
            objects()
        }
    }
}

fn tell(tenant: &Tenant, pages: &Pages) {
    let path = tenant.config.path.display();
    match &pages.small_because {
        None => tracing::info!(%path, %pages, "pages of the stores"),
        Some(reason) => tracing::warn!(
            %path, %pages, %reason,
            "the stores have small pages: models take longer to touch, and page tables 2 MB per GB and process"
        ),
    }
}
