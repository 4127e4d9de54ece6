//! Stores whose content ended earlier starts of the daemon: steps U1 to U4 of LAYOUT.md 5.8.

use std::path::PathBuf;

use tetris_store_layout::{RECLAIMER_READING, Store, StoreError};

use super::Reclaimer;
use super::persisted_state;
use super::reading_mark::{ReadingMark, Treatment};
use crate::report::ErrorClass;
use crate::store::StoreConfig;

/// The reason not to read a store, with the next step.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unread {
    #[error(
        "the last {deaths} starts of the daemon ended while they read this store, the last ones without its \
         records; recreate the store, or remove `{}` to have it read again", mark.display()
    )]
    GivenUp { deaths: u8, mark: PathBuf },
    #[error(transparent)]
    Records(#[from] StoreError),
}

impl Reclaimer {
    /// Opens the mark of a store, and begins to read the store. A dry run changes nothing, and counts nothing.
    ///
    /// # Errors
    /// The reason not to read the store.
    pub(super) fn begin_reading(&mut self, config: &StoreConfig) -> Result<ReadingMark, Unread> {
        if self.dry_run {
            return Ok(ReadingMark::default());
        }
        let mark = ReadingMark::open(&config.path);
        let deaths = mark.deaths();
        let treatment = mark.treatment();
        if treatment == Treatment::GiveUp {
            let mark = config.path.join(RECLAIMER_READING);
            return Err(Unread::GivenUp { deaths, mark });
        }
        mark.begin(); // U1
        if treatment == Treatment::SetAside {
            let moved = self.set_aside(config)?;
            tracing::error!(
                store = config.name,
                deaths,
                moved,
                "starts of the daemon ended while they read this store; its records are quarantined"
            );
            let store = Some(config.name.clone());
            self.errors.push((ErrorClass::Record, store));
        } else if deaths > 0 {
            tracing::warn!(
                store = config.name,
                deaths,
                "the last start of the daemon ended while it read this store"
            );
        }
        Ok(mark)
    }

    /// Sets the records of a store aside, with what an earlier daemon learned of it.
    fn set_aside(&self, config: &StoreConfig) -> Result<u64, StoreError> {
        let learned = self.state_path(config);
        if let Err(error) = persisted_state::set_aside(&learned) {
            let path = learned.display();
            tracing::warn!(store = config.name, %path, %error, "learned state is not quarantined");
        }
        Store::open(&config.path)?.set_records_aside()
    }
}
