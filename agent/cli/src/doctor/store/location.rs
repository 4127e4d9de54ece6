//! The store's directory: the reason that it is this one, and the reason that it cannot be used.

use std::path::Path;

use tetris_loader::Words;
use tetris_store_layout::{FORMAT_VERSION, Store};

use crate::doctor::check::{Check, Status};
use tetris_agent::store_location::{
    MOUNT_POINT, SHM_DIR, STORE_ENV, StoreLocation, StoreLocationError,
};

/// The reason that the store is this one.
pub(super) fn check(location: &StoreLocation) -> Check {
    let by_environment = std::env::var_os(STORE_ENV)
        .is_some_and(|value| location.named && value == location.dir.as_os_str());
    let found = if by_environment {
        format!("{STORE_ENV} names it")
    } else {
        location.choice.to_string()
    };
    let is_mounted = location.dir == Path::new(MOUNT_POINT);
    let is_second = !location.named && is_mounted && Path::new(SHM_DIR).join("store").exists();
    let check = if is_second {
        unused(&found)
    } else {
        Check::ok("location", found)
    };
    check
        .fact("directory", location.dir.to_string_lossy())
        .fact("choice", location.choice.code())
}

/// A second store, which no program finds by itself.
fn unused(found: &str) -> Check {
    let found = format!("{found}; the store at {SHM_DIR} is not used");
    Check::new(Status::Note, "location", found).remedy(format_args!(
        "to use that one, run `export {STORE_ENV}={SHM_DIR}`"
    ))
}

/// The store's format, which this build reads.
pub(super) fn layout(store: &Store) -> Check {
    let found = format!("format version {FORMAT_VERSION}, as this build's");
    Check::ok("layout", found)
        .fact("format_version", FORMAT_VERSION)
        .fact("id", store.id().to_string())
}

/// The reason that there is no store to use: all loads are private.
pub(super) fn unusable(error: &StoreLocationError) -> Check {
    let cause = error.cause();
    Check::failure("layout", error.to_string())
        .expected(format_args!(
            "a tensor store of format version {FORMAT_VERSION}"
        ))
        .remedy(error.remedy(Words::of_process()))
        .fact("cause", cause.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_against_a_store_has_a_remedy() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let other = dir.path().join("other");
        std::fs::create_dir(&other).unwrap();
        let newer = dir.path().join("newer");
        drop(Store::create(&newer, &tetris_store_layout::CreateOptions::default()).unwrap());
        let header = newer.join("store");
        let mut bytes = std::fs::read(&header).unwrap();
        bytes[8] = 2;
        std::fs::remove_file(&header).unwrap();
        std::fs::write(&header, &bytes).unwrap();
        for (path, words) in [
            (dir.path().join("missing"), "no tensor store"),
            (other, "not a tensor store"),
            (newer, "version 2"),
        ] {
            let error = StoreLocation::named(path).open().unwrap_err();
            let check = unusable(&error);
            assert_eq!(check.status, Status::Failure);
            assert!(check.found.contains(words), "{check:?}");
            assert!(check.remedy.is_some_and(|remedy| remedy.contains("tetris")));
        }
    }
}
