//! A mark on each store while its content is read for the first time, so that content that ends the daemon cannot end
//! every start of it (LAYOUT.md 5.8).

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, fchown};
use std::path::Path;

use tetris_store_layout::{RECLAIMER_READING, Store, open_or_create_without_waiting};

/// Number of deaths from which on a store's records are quarantined.
const SET_ASIDE: u8 = 2;
/// Number of deaths from which on a store is not read: its records were not the reason.
const GIVE_UP: u8 = 4;
/// Largest number that the file's digit can show.
const MOST: u8 = 9;

/// Number of starts that ended while they read a store, in a file that only the store's owner can write.
///
/// The file has one digit, which is written in place: a full tmpfs has room for it, and a process that is killed leaves
/// either number. While the store is read, the digit counts the present start as well.
#[derive(Debug, Default)]
pub(super) struct ReadingMark {
    /// `None` if the file cannot be had. Then no death is counted.
    file: Option<File>,
    deaths: u8,
}

/// Treatment of a store, by the number of deaths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Its records are read.
    Read,
    /// Its records are quarantined first.
    SetAside,
    /// It is not read.
    GiveUp,
}

impl ReadingMark {
    /// Opens the mark of the store in `root`; one that counts nothing where there is no store.
    pub(super) fn open(root: &Path) -> Self {
        // Nothing is made in a directory that is no store.
        if Store::id_in(root).is_err() {
            return Self::default();
        }
        let path = root.join(RECLAIMER_READING);
        let opened = open_or_create_without_waiting(&path).map_err(|error| error.to_string());
        let read = opened.and_then(|file| {
            let deaths = give_to_owner(&file, root).and_then(|()| {
                let deaths = deaths_in(&file)?;
                // Takes the file's page now, where there is room for it.
                write(&file, deaths)?;
                Ok(deaths)
            });
            let deaths = deaths.map_err(|error| format!("{}: {error}", path.display()))?;
            Ok((file, deaths))
        });
        match read {
            Ok((file, deaths)) => Self {
                file: Some(file),
                deaths,
            },
            Err(error) => {
                tracing::debug!(%error, "starts that end while they read this store are not counted");
                Self::default()
            }
        }
    }

    /// Number of starts that ended while they read the store.
    pub(super) fn deaths(&self) -> u8 {
        self.deaths
    }

    pub(super) fn treatment(&self) -> Treatment {
        match self.deaths {
            ..SET_ASIDE => Treatment::Read,
            SET_ASIDE..GIVE_UP => Treatment::SetAside,
            GIVE_UP.. => Treatment::GiveUp,
        }
    }

    /// Notes that the store is being read.
    pub(super) fn begin(&self) {
        self.write(self.deaths.saturating_add(1));
    }

    /// Notes that the store is not being read at this moment.
    pub(super) fn pause(&self) {
        self.write(self.deaths);
    }

    /// Notes that the whole store was read. Earlier deaths no longer count.
    pub(super) fn end(self) {
        self.write(0);
    }

    fn write(&self, deaths: u8) {
        let written = self
            .file
            .as_ref()
            .map_or(Ok(()), |file| write(file, deaths));
        if let Err(error) = written {
            tracing::warn!(%error, "reading of a store is not marked");
        }
    }
}

/// Gives a file that root made to the owner of the store, as everything that root makes there.
fn give_to_owner(file: &File, root: &Path) -> io::Result<()> {
    let (owner, found) = (std::fs::metadata(root)?, file.metadata()?);
    if owner.uid() == found.uid() {
        return Ok(());
    }
    fchown(file, Some(owner.uid()), Some(owner.gid()))
}

fn deaths_in(file: &File) -> io::Result<u8> {
    let mut digit = [0];
    // Empty where it was just made.
    let read = file.read_at(&mut digit, 0)?;
    let [digit] = digit;
    Ok(match digit {
        b'0'..=b'9' if read == 1 => digit - b'0',
        _ => 0,
    })
}

fn write(file: &File, deaths: u8) -> io::Result<()> {
    file.write_all_at(&[b'0' + deaths.min(MOST)], 0)
}

#[cfg(test)]
mod tests {
    use tetris_store_layout::CreateOptions;

    use super::*;

    /// A start that ends while it reads the store.
    fn die(root: &Path) {
        ReadingMark::open(root).begin();
    }

    #[test]
    fn deaths_count_until_a_start_reads_the_whole_store() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        Store::create(dir.path(), &CreateOptions::default()).unwrap();
        let treatments = [
            Treatment::Read,
            Treatment::Read,
            Treatment::SetAside,
            Treatment::SetAside,
            Treatment::GiveUp,
        ];
        for (deaths, expected) in (0..).zip(treatments) {
            let mark = ReadingMark::open(dir.path());
            assert_eq!((mark.deaths(), mark.treatment()), (deaths, expected));
            die(dir.path());
        }
        ReadingMark::open(dir.path()).end();
        assert_eq!(ReadingMark::open(dir.path()).deaths(), 0);
    }

    #[test]
    fn a_start_that_ends_between_two_reads_counts_no_death_and_forgets_none() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        Store::create(dir.path(), &CreateOptions::default()).unwrap();
        die(dir.path());
        let mark = ReadingMark::open(dir.path());
        mark.begin();
        mark.pause();
        drop(mark);
        assert_eq!(ReadingMark::open(dir.path()).deaths(), 1);
    }

    #[test]
    fn any_number_of_deaths_gives_up_and_other_content_counts_as_none() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        Store::create(dir.path(), &CreateOptions::default()).unwrap();
        for _ in 0..20 {
            die(dir.path());
        }
        assert_eq!(ReadingMark::open(dir.path()).treatment(), Treatment::GiveUp);
        let path = dir.path().join(RECLAIMER_READING);
        for content in ["", "x", "\0\0"] {
            std::fs::write(&path, content).unwrap();
            assert_eq!(ReadingMark::open(dir.path()).deaths(), 0, "{content:?}");
        }
    }

    #[test]
    fn nothing_is_made_where_there_is_no_store() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        die(dir.path());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
