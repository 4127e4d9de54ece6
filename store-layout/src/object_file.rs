//! Opening the files of objects.

use std::fs::File;

use nix::errno::Errno;

use crate::folder::Folder;
use crate::open_file::{Opening, open_file};
use crate::store::Store;

/// Opens an object's file without following links and without waiting.
pub(crate) fn open_object(store: &Store, name: &str, opening: Opening) -> Result<File, Errno> {
    open_file(store.folder(Folder::Objects), name, opening)
}
