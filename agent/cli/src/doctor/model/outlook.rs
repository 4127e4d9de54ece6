//! The part of a model that a load of this process would keep private, and the cause.

use std::path::Path;

use tetris_loader::{PrivateCause, Words};
use tetris_store_layout::ObjectRef;
use tetris_units::size::Bytes;

use super::file::LookedFile;
use super::presence::{Presence, objects_of};
use super::some_of;
use crate::doctor::check::Check;
use crate::doctor::machine::limits;
use crate::doctor::store::{OpenStore, Publishing, SeenStore};
use tetris_agent::NotWorthSharing;

/// Mappings that a program has beside those of a model: libraries, stacks and heaps.
const OTHER_MAPPINGS: u64 = 2_000;

/// Bytes that would be private, and the cause.
#[derive(Debug, PartialEq, Eq)]
struct Private {
    bytes: u64,
    cause: PrivateCause,
}

/// The check of private memory.
pub(super) fn check(files: &[LookedFile], seen: &SeenStore) -> Check {
    let total: u64 = files.iter().map(|file| file.size).sum();
    let open = match &seen.opened {
        Ok(open) => open,
        Err(error) => {
            let cause = error.cause();
            return private(
                &Private {
                    bytes: total,
                    cause,
                },
                &[],
                error.dir(),
            );
        }
    };
    let presence = Presence::of(files, &objects_of(open));
    let dir = open.store.root();
    if let Some(found) = of_store(&presence, open, limits::map_limit()) {
        return private(&found, &presence.missing, dir);
    }
    match unshared(files) {
        Some(found) => private(&found, &[], dir),
        None => {
            Check::ok("private", "nothing: loads of this user share all of it").fact("bytes", 0)
        }
    }
}

/// The part that the store would not take.
fn of_store(presence: &Presence<'_>, open: &OpenStore, map_limit: Option<u64>) -> Option<Private> {
    let missing = presence.missing_bytes();
    if missing > 0 {
        let cause = match (open.publishing(), &open.daemon) {
            (Publishing::Impossible, Err(error)) if !error.is_absent() => {
                Some(PrivateCause::DaemonSilent)
            }
            (Publishing::Impossible, _) => Some(PrivateCause::of_read_only(&open.store)),
            _ => None,
        };
        if let Some(cause) = cause {
            return Some(Private {
                bytes: missing,
                cause,
            });
        }
        let is_own = |object: &ObjectRef| presence.own.contains(object);
        let room = open
            .usage
            .free
            .saturating_add(open.freeable_without(is_own));
        let lacking = missing.saturating_sub(room);
        if lacking > 0 {
            let full = PrivateCause::Full { needed: 0 };
            let cause = full.with_needed(open.usage.capacity, lacking, presence.total);
            return Some(Private {
                bytes: lacking,
                cause,
            });
        }
    }
    beyond_limit(presence, map_limit?)
}

/// The part that would not be mapped, each object being as large as any other.
fn beyond_limit(presence: &Presence<'_>, limit: u64) -> Option<Private> {
    let mappable = limit.saturating_sub(OTHER_MAPPINGS);
    let beyond = presence.objects.saturating_sub(mappable);
    if beyond == 0 {
        return None;
    }
    let mean = presence.total / presence.objects.max(1);
    Some(Private {
        bytes: mean.saturating_mul(beyond),
        cause: PrivateCause::MappingLimit,
    })
}

/// The part that is not worth sharing.
fn unshared(files: &[LookedFile]) -> Option<Private> {
    let unshared = files.iter().filter(|file| file.not_worth.is_some());
    let bytes = unshared.clone().map(|file| file.size).sum();
    let cause = match unshared.clone().find_map(|file| file.not_worth)? {
        NotWorthSharing::Small(_) => PrivateCause::SmallFile,
        NotWorthSharing::New(_) => PrivateCause::NewFile,
    };
    Some(Private { bytes, cause })
}

fn private(found: &Private, tensors: &[&str], dir: &Path) -> Check {
    let Private { bytes, cause } = *found;
    let mut text = format!("{}: {}", Bytes(bytes), cause.sentence());
    if !tensors.is_empty() {
        text = format!("{text} ({})", some_of(tensors));
    }
    let check = if cause.is_choice() {
        Check::note("private", text)
    } else {
        Check::warning("private", text).expected("nothing: one copy for all processes")
    };
    check
        .remedy(cause.remedy(Words::of_process(), dir))
        .fact("bytes", bytes)
        .fact("cause", cause.code())
        .fact("tensors", tensors.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::check::Status;

    #[test]
    fn models_of_more_objects_than_mappings_are_private_in_part() {
        let presence = |objects| Presence {
            total: objects * 100,
            objects,
            ..Presence::default()
        };
        assert_eq!(beyond_limit(&presence(10_000), 65_530), None);
        let excess = beyond_limit(&presence(70_000), 65_530).unwrap();
        assert_eq!(excess.bytes, 100 * (70_000 - 63_530));
        assert_eq!(excess.cause, PrivateCause::MappingLimit);
        // A limit of nothing leaves nothing to share, and divides by nothing.
        assert_eq!(beyond_limit(&presence(0), 0), None);
    }

    #[test]
    fn private_memory_by_choice_is_no_warning() {
        let dir = Path::new("/x");
        for (cause, status) in [
            (PrivateCause::SmallFile, Status::Note),
            (PrivateCause::NoStore, Status::Warning),
        ] {
            let check = private(&Private { bytes: 5, cause }, &["a", "b"], dir);
            assert_eq!(check.status, status);
            assert!(
                check.remedy.is_some() && check.found.contains("(a, b)"),
                "{check:?}"
            );
            assert_eq!(check.facts["cause"], cause.code());
        }
    }
}
