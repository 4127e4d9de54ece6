//! Pages of the store's files: asked for by the mount, and seen.

use std::path::Path;

use tetris_loader::{PrivateCause, Words};
use tetris_store_layout::{IoError, Pages, SmallPages, Store};

use super::OpenStore;
use crate::doctor::check::Check;

/// The pages that objects get.
pub(super) fn check(open: &OpenStore) -> Check {
    let store = &open.store;
    let huge = store.huge_option();
    let check = match seen(store, open) {
        Ok(Some(pages)) => of(&pages, store.root()),
        Ok(None) => Check::note(
            "pages",
            "not known: no object of 2 MiB is there to be looked at",
        ),
        Err(why) => Check::note("pages", format!("not known: {why}")),
    };
    check.fact("huge", huge)
}

/// Of a new file, or else of the objects that are there.
fn seen(store: &Store, open: &OpenStore) -> Result<Option<Pages>, IoError> {
    if store.is_writable()
        && let Ok(Some(pages)) = store.probe_pages()
    {
        return Ok(Some(pages));
    }
    store.object_pages(&open.objects)
}

fn of(pages: &Pages, dir: &Path) -> Check {
    let check = match &pages.small_because {
        None => Check::ok("pages", pages.to_string()),
        Some(reason) => {
            let found = format!("{pages}: {reason}");
            let check = match reason {
                // As the mount asks for it, so as someone chose it.
                SmallPages::Mount { .. } | SmallPages::NotTmpfs { .. } => {
                    Check::note("pages", found)
                }
                _ => Check::warning("pages", found),
            };
            let check = check.fact("small_because", reason.name());
            let check =
                check.expected("2 MiB pages, which need a five-hundredth of the page tables");
            remedy(check, reason, dir)
        }
    };
    check
        .fact("looked_at_bytes", pages.looked_at)
        .fact("large_bytes", pages.large)
}

fn remedy(check: Check, reason: &SmallPages, dir: &Path) -> Check {
    match reason {
        SmallPages::Denied => check.remedy(
            "run `echo never | sudo tee /sys/kernel/mm/transparent_hugepage/shmem_enabled`",
        ),
        SmallPages::Memory => check.remedy(
            "run `echo 1 | sudo tee /proc/sys/vm/compact_memory` and `tetris gc`, and load the models again",
        ),
        SmallPages::Mount { .. } | SmallPages::NotTmpfs { .. } => {
            check.remedy(PrivateCause::SmallPages.remedy(Words::of_process(), dir))
        }
        // A kernel without large pages: nothing to run.
        _ => check,
    }
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::PagesOf;

    use super::*;
    use crate::doctor::check::Status;

    fn pages(small_because: Option<SmallPages>) -> Pages {
        let all = 8 << 20;
        Pages {
            of: PagesOf::NewFile,
            looked_at: all,
            large: if small_because.is_some() { 0 } else { all },
            small_because,
        }
    }

    #[test]
    fn small_pages_are_a_warning_only_where_large_ones_were_asked_for() {
        let mount = SmallPages::Mount { huge: None };
        for (reason, status) in [
            (None, Status::Ok),
            (Some(mount), Status::Note),
            (Some(SmallPages::Denied), Status::Warning),
            (Some(SmallPages::Memory), Status::Warning),
            (Some(SmallPages::Kernel), Status::Warning),
        ] {
            let kernel = reason == Some(SmallPages::Kernel);
            let check = of(&pages(reason), Path::new("/run/tetris/store"));
            assert_eq!(check.status, status, "{check:?}");
            let has_remedy = status != Status::Ok && !kernel;
            assert_eq!(check.remedy.is_some(), has_remedy, "{check:?}");
        }
    }
}
