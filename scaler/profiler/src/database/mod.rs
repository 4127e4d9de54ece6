//! Embedded database of finished configurations, so that an interrupted run can continue.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use redb::{ReadableDatabase, ReadableTable, TableDefinition};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::machine::Machine;
use crate::measurement::Measurement;
use crate::shared::SharedPart;

/// Table of profiles: name to [`StoredProfile`], as JSON.
const PROFILES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("profiles-v1");
/// Table of measurements: profile name, identity and configuration name to [`Measurement`], as
/// JSON.
const MEASUREMENTS: TableDefinition<'_, (&str, &str, &str), &[u8]> =
    TableDefinition::new("measurements-v1");

/// A profile in the database, without its configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredProfile {
    /// Hash of all that affects the measurements: command, model, requests, machine.
    pub identity: String,
    /// Name of the model in the inference protocol.
    pub model: String,
    /// Command line, with its placeholders.
    pub command: Vec<String>,
    /// Machine of the measurements.
    pub machine: Machine,
    /// Time at which the last configuration finished, in RFC 3339.
    pub at: String,
    /// Objects that instances share.
    pub shared: SharedPart,
}

/// The reason the database cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// A directory that cannot be created.
    #[error("cannot create the directory `{}`: {source}", path.display())]
    Directory {
        /// Path of the directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A missing database.
    #[error("there is no database `{}`; measure a profile first, or name another with --database", path.display())]
    Missing {
        /// Path of the database.
        path: PathBuf,
    },
    /// A database that another process has open.
    #[error("another process has the database `{}` open; wait for it, or name another with --database", path.display())]
    Busy {
        /// Path of the database.
        path: PathBuf,
    },
    /// A failed transaction.
    #[error("cannot use the database `{}`: {source}", path.display())]
    Failed {
        /// Path of the database.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Box<redb::Error>,
    },
    /// An entry in an unexpected format.
    #[error("the entry `{key}` of the database `{}` cannot be parsed: {source}; measure it again with --fresh", path.display())]
    Entry {
        /// Path of the database.
        path: PathBuf,
        /// Key of the entry.
        key: String,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
}

/// An open database, exclusive to one process.
#[derive(Debug)]
pub struct ProfileDatabase {
    database: redb::Database,
    path: PathBuf,
}

impl ProfileDatabase {
    /// Opens the database at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails if another process has the database open, or if it cannot be created or read.
    pub fn create(path: &Path) -> Result<Self, DatabaseError> {
        if let Some(parent) = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty())
        {
            fs::create_dir_all(parent).map_err(|source| DatabaseError::Directory {
                path: parent.to_owned(),
                source,
            })?;
        }
        let opened = redb::Database::create(path).map_err(|error| open_error(path, error))?;
        let database = Self {
            database: opened,
            path: path.to_owned(),
        };
        // Creates the tables for readers.
        database.write(|_, _| Ok(()))?;
        Ok(database)
    }

    /// Opens the existing database at `path`.
    ///
    /// # Errors
    ///
    /// Fails if the database does not exist, cannot be read, or is open in another process.
    pub fn open(path: &Path) -> Result<Self, DatabaseError> {
        if path.exists() {
            return Self::create(path);
        }
        Err(DatabaseError::Missing {
            path: path.to_owned(),
        })
    }

    /// Returns the profile `name`, if there is one.
    ///
    /// # Errors
    ///
    /// Fails if the database or the entry cannot be read.
    pub fn profile(&self, name: &str) -> Result<Option<StoredProfile>, DatabaseError> {
        let stored =
            self.read(|profiles, _| Ok(profiles.get(name)?.map(|entry| entry.value().to_vec())))?;
        stored.map(|entry| self.decode(name, &entry)).transpose()
    }

    /// Returns all profiles by name, with the number of their configurations.
    ///
    /// # Errors
    ///
    /// Fails if the database or an entry cannot be read.
    pub fn profiles(&self) -> Result<Vec<(String, StoredProfile, usize)>, DatabaseError> {
        let entries = self.read(|profiles, _| {
            let entries = profiles.iter()?;
            entries
                .map(|entry| {
                    let (name, value) = entry?;
                    Ok((name.value().to_owned(), value.value().to_vec()))
                })
                .collect::<Result<Vec<_>, redb::Error>>()
        })?;
        let counted = entries.into_iter().map(|(name, entry)| {
            let profile: StoredProfile = self.decode(&name, &entry)?;
            let count = self.measurements(&name, &profile.identity)?.len();
            Ok((name, profile, count))
        });
        counted.collect()
    }

    /// Returns the measurements of a profile under `identity`, by configuration.
    ///
    /// # Errors
    ///
    /// Fails if the database or an entry cannot be read.
    pub fn measurements(
        &self,
        name: &str,
        identity: &str,
    ) -> Result<Vec<Measurement>, DatabaseError> {
        let entries = self.read(|_, measurements| {
            // U+10FFFF sorts after every name of a configuration.
            let range = measurements.range((name, identity, "")..(name, identity, "\u{10ffff}"))?;
            range
                .map(|entry| Ok(entry?.1.value().to_vec()))
                .collect::<Result<Vec<_>, redb::Error>>()
        })?;
        let decoded = entries.iter().map(|entry| self.decode(name, entry));
        let mut measurements: Vec<Measurement> = decoded.collect::<Result<_, _>>()?;
        measurements.sort_unstable_by_key(|measurement| measurement.setting);
        Ok(measurements)
    }

    /// Stores a finished configuration durably.
    ///
    /// # Errors
    ///
    /// Fails if the transaction fails.
    pub fn record(
        &self,
        name: &str,
        profile: &StoredProfile,
        measurement: &Measurement,
    ) -> Result<(), DatabaseError> {
        let setting = measurement.setting.name();
        let profile_json = self.encode(name, profile)?;
        let measurement_json = self.encode(&setting, measurement)?;
        self.write(|profiles, measurements| {
            profiles.insert(name, &profile_json[..])?;
            let key = (name, profile.identity.as_str(), setting.as_str());
            measurements.insert(key, &measurement_json[..])?;
            Ok(())
        })
    }

    /// Deletes a profile and all its measurements, of every identity.
    ///
    /// # Errors
    ///
    /// Fails if the transaction fails.
    pub fn forget(&self, name: &str) -> Result<(), DatabaseError> {
        self.write(|profiles, measurements| {
            profiles.remove(name)?;
            measurements.retain(|(profile, _, _), _| profile != name)?;
            Ok(())
        })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(
            redb::ReadOnlyTable<&'static str, &'static [u8]>,
            redb::ReadOnlyTable<(&'static str, &'static str, &'static str), &'static [u8]>,
        ) -> Result<T, redb::Error>,
    ) -> Result<T, DatabaseError> {
        let transaction = || {
            let transaction = self.database.begin_read()?;
            read(
                transaction.open_table(PROFILES)?,
                transaction.open_table(MEASUREMENTS)?,
            )
        };
        transaction().map_err(|source| self.failed(source))
    }

    fn write(
        &self,
        write: impl FnOnce(
            &mut redb::Table<'_, &'static str, &'static [u8]>,
            &mut redb::Table<'_, (&'static str, &'static str, &'static str), &'static [u8]>,
        ) -> Result<(), redb::Error>,
    ) -> Result<(), DatabaseError> {
        let transaction = || {
            let transaction = self.database.begin_write()?;
            write(
                &mut transaction.open_table(PROFILES)?,
                &mut transaction.open_table(MEASUREMENTS)?,
            )?;
            transaction.commit()?;
            Ok(())
        };
        transaction().map_err(|source| self.failed(source))
    }

    fn failed(&self, source: redb::Error) -> DatabaseError {
        DatabaseError::Failed {
            path: self.path.clone(),
            source: Box::new(source),
        }
    }

    fn encode(&self, key: &str, value: &impl Serialize) -> Result<Vec<u8>, DatabaseError> {
        serde_json::to_vec(value).map_err(|source| self.entry(key, source))
    }

    fn decode<T: for<'de> Deserialize<'de>>(
        &self,
        key: &str,
        json: &[u8],
    ) -> Result<T, DatabaseError> {
        serde_json::from_slice(json).map_err(|source| self.entry(key, source))
    }

    fn entry(&self, key: &str, source: serde_json::Error) -> DatabaseError {
        DatabaseError::Entry {
            path: self.path.clone(),
            key: key.to_owned(),
            source,
        }
    }
}

fn open_error(path: &Path, error: redb::DatabaseError) -> DatabaseError {
    let path = path.to_owned();
    match error {
        redb::DatabaseError::DatabaseAlreadyOpen => DatabaseError::Busy { path },
        error => DatabaseError::Failed {
            path,
            source: Box::new(error.into()),
        },
    }
}

#[cfg(test)]
mod tests;
