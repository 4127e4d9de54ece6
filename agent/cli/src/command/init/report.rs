//! The report of `init`.

use std::path::{Path, PathBuf};

use serde_json::json;
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{PrivateCause, Store, Words};
use tetris_units::size::Bytes;

use super::args::{DEFAULT_PERCENT, InitArgs, ram};
use super::mount::{Huge, Mount};
use super::{How, Ready, recreate};
use crate::command::error::Result;
use crate::command::loading::lossy;
use crate::command::output::{self, Output};
use crate::command::pages::SeenPages;

/// Prints what was prepared, and on stderr what to know about it.
pub(super) fn print(
    ready: &Ready,
    default: &StoreLocation,
    args: &InitArgs,
    out: &mut Output,
) -> Result {
    let Ready {
        store,
        created,
        how,
        lost,
    } = ready;
    // The store is ready; not to know its mount is no reason to fail.
    let mount = Mount::of(store.root()).ok().flatten();
    let pages = SeenPages::of_new_files(store);
    let noswap = mount.as_ref().is_some_and(Mount::noswap);
    let usage = store.usage()?;
    let is_default = is_same_dir(store.root(), &default.dir);
    if out.is_json() {
        out.json(&json!({
            "store": lossy(store.root()),
            "id": store.id().to_string(),
            "created": created,
            "recreated": lost.is_some(),
            "lost_objects": lost.map_or(0, |lost| lost.objects),
            "lost_bytes": lost.map_or(0, |lost| lost.bytes),
            "lost_held_objects": lost.map_or(0, |lost| lost.held_objects),
            "mounted": *how == How::Mounted,
            "remounted": *how == How::Remounted,
            "own_mount": *how != How::Directory,
            "huge": pages.huge(),
            "pages": pages.document(),
            "noswap": noswap,
            "capacity_bytes": usage.capacity,
            "free_bytes": usage.free,
            "inodes": usage.inodes,
            "default": is_default,
            "default_store": lossy(&default.dir),
            "default_because": default.choice.code(),
            "writable": store.is_writable(),
        }))?;
    } else {
        let swap = if noswap {
            "never"
        } else {
            "when memory is short"
        };
        let state = match (created, lost) {
            (_, Some(_)) => "recreated",
            (true, None) => "created",
            (false, None) => "was there already",
        };
        out.fields(&[
            ("store", format!("{}, {state}", store.root().display())),
            ("id", store.id().to_string()),
            ("memory", how.name().into()),
            ("capacity", Bytes(usage.capacity).to_string()),
            ("pages", pages.text()),
            ("swapped out", swap.into()),
            ("inodes", usage.inodes.to_string()),
            ("used by default", default.dir.display().to_string()),
            ("because", default.choice.to_string()),
        ])?;
    }
    out.flush()?;
    if let Some(lost) = lost {
        recreate::explain(lost);
    }
    explain(ready, args, &pages, noswap);
    if !is_default {
        let (dir, other) = (store.root().display(), default.dir.display());
        output::note(format_args!(
            "processes use this store only where it is named, else `{other}`, because {}; name it with `export TETRIS_STORE={dir}`",
            default.choice
        ));
    }
    explain_owner(store);
    explain_size(usage.capacity)
}

/// Returns true if both paths lead to one directory.
fn is_same_dir(one: &Path, other: &Path) -> bool {
    let same = |one: PathBuf| other.canonicalize().is_ok_and(|other| other == one);
    one == other || one.canonicalize().is_ok_and(same)
}

/// Reports that the store was there and is someone else's.
fn explain_owner(store: &Store) {
    if store.is_writable() {
        return;
    }
    let cause = PrivateCause::of_read_only(store);
    output::warning(format_args!(
        "this user can only read the store: {}; {}",
        cause.sentence(),
        cause.remedy(Words::CommandLine, store.root())
    ));
}

/// Warns of a store that promises more memory than the machine has.
fn explain_size(capacity: u64) -> Result {
    let ram = ram()?;
    if capacity > ram {
        output::warning(format_args!(
            "the store may take {}, and this machine has {} of RAM: before the store is full, models are swapped out or processes are killed; choose less with `--size`",
            Bytes(capacity),
            Bytes(ram)
        ));
    }
    Ok(())
}

/// Reports on stderr what is not as good as it could be, or was chosen without being asked.
fn explain(ready: &Ready, args: &InitArgs, pages: &SeenPages, noswap: bool) {
    if ready.how == How::Mounted && args.size.is_none() {
        output::note(format_args!(
            "the size is {DEFAULT_PERCENT}% of the RAM; choose another with --size, now or later. Memory is taken only when models are loaded"
        ));
    }
    if ready.how == How::Mounted && !noswap {
        output::note(
            "this kernel has no `noswap` (Linux 6.4 has): under memory pressure models may be swapped out",
        );
    }
    let wanted = args.huge != Some(Huge::Never);
    let small = pages.small_because();
    if let Some(reason) = small
        .as_ref()
        .filter(|_| ready.how != How::Directory && wanted)
    {
        output::warning(format_args!(
            "this tmpfs gives 4 KiB pages: attaching and touching a model takes about 7 times as long as with 2 MiB pages. The reason: {reason}{}",
            pages.remedy(&ready.store)
        ));
    }
    if ready.how == How::Directory {
        output::note(cost_of_directory(small.as_deref()));
    }
}

/// The cost of a directory in comparison with a mount.
fn cost_of_directory(small_because: Option<&str>) -> String {
    let pages = small_because.map_or(String::new(), |reason| {
        format!(
            "\n  - 4 KiB pages ({reason}): attaching and touching a model takes about 7 times as long, and \
             page tables 2 MB per GB of model and process"
        )
    });
    format!(
        "a store in a directory works, but as root `tetris init` would mount one of its own. This one has{pages}\n  \
         - no size of its own: it can fill the file system, which others use too\n  \
         - no protection from others who fill that file system: then models are loaded into private memory"
    )
}
