//! The measures by name.
//!
//! To add a measure, add a variant to [`Name`] and a line here.

use crate::backend::Backend;
use crate::family::Family;
use crate::measure::{Anchors, Attach, Eviction, LoadFile, Measure, Name, Processes, Transfers};
use crate::overlap::Overlap;

/// The measure of this name.
pub(crate) fn measure<D: Backend>(name: Name) -> Box<dyn Measure<D>> {
    match name {
        Name::Attach => Box::new(Attach),
        Name::Transfers => Box::new(Transfers),
        Name::LoadFile => Box::new(LoadFile),
        Name::Anchors => Box::new(Anchors),
        Name::Processes => Box::new(Processes),
        Name::Eviction => Box::new(Eviction),
        Name::Overlap => Box::new(Overlap),
        Name::Family => Box::new(Family),
    }
}
