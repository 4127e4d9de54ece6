//! Stores whose content ended earlier starts of the daemon: steps U1 to U4 of LAYOUT.md 5.8.

use tetris_store_layout::{RECLAIMER_READING, Store, StoreError};

use super::Reclaimer;
use super::persisted_state;
use super::reading_mark::{ReadingMark, Treatment};
use crate::report::ErrorClass;
use crate::store::StoreConfig;

impl Reclaimer {
    /// Opens the mark of a store, and begins to read the store. A dry run changes nothing, and counts nothing.
    ///
    /// # Errors
    /// The reason not to read the store, with the next step.
    pub(super) fn begin_reading(&mut self, config: &StoreConfig) -> Result<ReadingMark, String> {
        if self.dry_run {
            return Ok(ReadingMark::default());
        }
        let mark = ReadingMark::open(&config.path);
        let deaths = mark.deaths();
        let treatment = mark.treatment();
        if treatment == Treatment::GiveUp {
            let path = config.path.join(RECLAIMER_READING);
            let path = path.display();
            return Err(format!(
                "the last {deaths} starts of the daemon ended while they read this store, the last ones without its \
                 records; recreate the store, or remove `{path}` to have it read again"
            ));
        }
        mark.begin(); // U1
        if treatment == Treatment::SetAside {
            let moved = self.set_aside(config).map_err(|error| error.to_string())?;
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
