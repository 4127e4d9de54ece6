//! Conditions on any bytes in the small files of a store. Shared by the fuzz target and the tests of
//! the store's layout.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use tetris_store_layout::{
    Access, CreateOptions, DerivedId, DerivedKey, DerivedRecord, Digest, ManifestId, ObjectRef,
    Store, TrustDomain,
};

/// First byte of an input: the file that the others are written to.
pub const HEADER: u8 = 0;
pub const IDENTITY: u8 = 1;
pub const DERIVED: u8 = 2;
pub const PATH_HINT: u8 = 3;
const FILES: u8 = 4;

/// Name of the record that holds the input.
const NAME: Digest = Digest([0xab; 32]);

/// A store, and one whose header is replaced.
pub struct Site {
    _folder: TempDir,
    store: Store,
    headless: PathBuf,
}

impl Default for Site {
    fn default() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let headless = folder.path().join("headless");
        Store::create(&headless, &CreateOptions::default()).unwrap();
        let store = Store::create(folder.path().join("store"), &CreateOptions::default()).unwrap();
        Self {
            _folder: folder,
            store,
            headless,
        }
    }
}

impl Site {
    /// Writes the input into its file and reads it through the store. Returns the reason it is
    /// refused.
    ///
    /// # Panics
    ///
    /// If an accepted file has a second encoding, or a message is unfit for a terminal.
    pub fn check(&self, input: &[u8]) -> Result<(), String> {
        let Some((file, bytes)) = input.split_first() else {
            return Err("no file".to_owned());
        };
        match file % FILES {
            HEADER => self.header(bytes),
            IDENTITY => self.identity(bytes),
            DERIVED => self.derived(bytes),
            _ => self.path_hint(bytes),
        }
    }

    fn header(&self, bytes: &[u8]) -> Result<(), String> {
        fs::write(self.headless.join("store"), bytes).unwrap();
        let store = Store::open(&self.headless).map_err(|error| printable(&error))?;
        let created = store.created().duration_since(std::time::UNIX_EPOCH);
        let fields = [
            &b"TETRSTOR\x01\0\0\0\0\0\0\0"[..],
            &store.id().0,
            &created.unwrap().as_secs().to_le_bytes(),
            &[0; 20],
        ];
        assert!(
            with_crc(fields.concat()) == bytes,
            "a second encoding of a header"
        );
        Ok(())
    }

    fn identity(&self, bytes: &[u8]) -> Result<(), String> {
        let folder = self.store.root().join("identities-v1");
        let written = folder.join(NAME.to_string());
        fs::write(&written, bytes).unwrap();
        let mut listed = self.store.identities().unwrap();
        fs::remove_file(&written).unwrap();
        let (name, bound) = listed.pop().expect("the record is listed");
        assert_eq!((name.0, listed.len()), (NAME, 0));
        let (key, manifest) = bound.map_err(|error| printable(&error))?;
        self.store.bind(&key, manifest).unwrap();
        let path = folder.join(key.id().to_string());
        let again = fs::read(&path).unwrap();
        assert!(again == bytes, "a second encoding of {key:?}");
        assert_eq!(self.store.look_up(&key).unwrap(), Some(manifest));
        assert!(self.store.unbind(&key).unwrap());
        Ok(())
    }

    fn derived(&self, bytes: &[u8]) -> Result<(), String> {
        let folder = self.store.root().join("derived-v1");
        let written = folder.join(NAME.to_string());
        fs::write(&written, bytes).unwrap();
        let derived = self.store.derived_record(DerivedId(NAME));
        let DerivedRecord { key, object } = match derived {
            Ok(record) => record.expect("the record is there"),
            Err(error) => {
                fs::remove_file(&written).unwrap();
                return Err(printable(&error));
            }
        };
        assert!(
            derived_record(&key, &object) == bytes,
            "a second encoding of {key:?}"
        );
        let again = DerivedKey::new(key.source(), key.transform(), key.version());
        let again = again.map(|again| again.in_domain(key.domain()));
        assert_eq!(again.as_ref(), Ok(&key));
        // Under its name it is a record of an object that is not there.
        fs::rename(&written, folder.join(key.id().to_string())).unwrap();
        assert!(
            self.store
                .derived(&key, Access::ReadOnly)
                .unwrap()
                .is_none()
        );
        let made = self
            .store
            .get_or_create(&key, Access::ReadOnly, Duration::ZERO, || {
                Ok::<_, String>(b"made".to_vec())
            });
        let object = made.unwrap().object;
        fs::remove_file(folder.join(key.id().to_string())).unwrap();
        self.store.reclaim(&object).unwrap();
        Ok(())
    }

    fn path_hint(&self, target: &[u8]) -> Result<(), String> {
        let link = self.store.root().join("paths-v1").join(NAME.to_string());
        // The kernel makes no link to an empty path, to one with NUL, or to one of 4 KiB.
        symlink(Path::new(OsStr::from_bytes(target)), &link).map_err(|error| error.to_string())?;
        let last = self.store.last_path(ManifestId(NAME));
        fs::remove_file(&link).unwrap();
        let last = last.ok_or("not a hint")?;
        assert!(last.path.is_absolute());
        assert!(target.ends_with(last.path.as_os_str().as_bytes()));
        Ok(())
    }
}

/// `input` with magic, version and checksum of its file put right. Nearly every change breaks those.
pub fn repaired(input: &[u8]) -> Vec<u8> {
    let magic = match input.first().map(|file| file % FILES) {
        Some(HEADER) => b"TETRSTOR",
        Some(IDENTITY) => b"TETRIDEN",
        Some(DERIVED) if input.get(1..9) == Some(b"TETRDERD") => b"TETRDERD",
        Some(DERIVED) => b"TETRDERV",
        _ => return input.to_vec(),
    };
    let (Some(file), Some(fields)) = (
        input.first(),
        input.get(13..input.len().saturating_sub(4).max(13)),
    ) else {
        return input.to_vec();
    };
    let body = [magic.as_slice(), &[1, 0, 0, 0], fields].concat();
    [&[*file], with_crc(body).as_slice()].concat()
}

/// A derived record, as LAYOUT.md 3.4 has it.
pub fn derived_record(key: &DerivedKey, object: &ObjectRef) -> Vec<u8> {
    let transform = key.transform().as_bytes();
    let (kind, number) = key.domain().code();
    let domain = [kind.to_le_bytes(), number.to_le_bytes()].concat();
    let begin: [&[u8]; 2] = match key.domain() {
        TrustDomain::Owner => [b"TETRDERV\x01\0\0\0", &[]],
        _ => [b"TETRDERD\x01\0\0\0", &domain],
    };
    let fields = [
        begin[0],
        begin[1],
        &key.version().to_le_bytes(),
        &key.source().0.0,
        &object.id.0.0,
        &object.len.to_le_bytes(),
        &object.crc.to_le_bytes(),
        &(transform.len() as u32).to_le_bytes(),
        transform,
    ];
    with_crc(fields.concat())
}

/// `bytes`, and their CRC-32.
pub fn with_crc(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = ObjectRef::of(&bytes).crc;
    bytes.extend(crc.to_le_bytes());
    bytes
}

/// The message of an error, which is short and printable.
fn printable(error: &impl ToString) -> String {
    let text = error.to_string();
    assert!((1..2000).contains(&text.len()), "{text}");
    assert!(!text.contains(char::is_control), "{text:?}");
    text
}
