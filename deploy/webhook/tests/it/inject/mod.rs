//! Injections into pods as API servers send them.

mod annotations;
mod conflicts;
mod fixtures;
mod kserve;
mod placement;
mod properties;
mod python;
mod reviews;
mod templates;
mod volumes;
