//! The cold tier: pulled models of a tensor store on a local disk.
//!
//! A cold store is a tensor store in a directory of a disk (LAYOUT.md), so objects have the names of their bytes there too, and
//! the tools for stores read it. Its unit is a pulled model: the list of its files (LAYOUT.md 3.8) with all that it names.
//!
//! # Guarantees
//! - A model is listed in a cold store only when all of it is on the disk: its list is written last, after a sync.
//! - Every object is hashed on its way back. One with other bytes, e.g. after a power cut or by a bad disk, is removed with the models
//!   that need it, and nothing of it reaches the tensor store.
//! - Models leave by the time of their last use, from the store that takes most.
//!
//! `tier` shares the disk among stores, `cold_store` keeps and restores models, `model` finds what belongs to one, `copy` moves
//! objects, and `disk_file` reads the disk.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod cold_store;
mod copy;
mod disk_file;
mod error;
mod model;
mod tier;

pub use cold_store::{ColdStore, Kept, MakeRoom, Restored};
pub use error::ColdError;
pub use model::{ListedModel, ModelScan};
pub use tier::{ColdLimits, ColdTier, ColdUse};
