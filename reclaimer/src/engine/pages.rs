//! Page sizes of each file system: measured, and logged when they change.

use std::collections::BTreeSet;

use tetris_store_layout::Pages;

use super::Reclaimer;
use super::tenant::Tenant;

impl Reclaimer {
    /// Measures file systems without a measurement, or all of them `again`: memory may fragment
    /// with time.
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
            // An earlier measurement stays true of the objects published then.
            if let Some(pages) = look(tenant, self.dry_run) {
                if self.pages.get(&device) != Some(&pages) {
                    tell(tenant, &pages);
                }
                self.pages.insert(device, pages);
            }
        }
    }
}

/// Measures a probe file, or the present objects: a dry run writes nothing, and a full store has no
/// room.
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
            tracing::debug!(store, %error, "pages cannot be measured");
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
