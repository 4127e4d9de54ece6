//! Pages of the store in a form that drivers can register.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tetris_store_layout::{Access, Mapping};

use tetris_gpu_device::{Capabilities, HostBytes};

/// A mapping of the store. If it was mapped with [`Self::access`], a driver that refuses read-only
/// pages can register it too.
#[derive(Debug, Clone)]
pub struct StorePages(Arc<Mapping>);

impl StorePages {
    /// Wraps a mapping.
    pub fn new(mapping: Arc<Mapping>) -> Self {
        Self(mapping)
    }

    /// Access with which to map objects for copies to a device with these capabilities.
    pub fn access(capabilities: &Capabilities) -> Access {
        if capabilities.registers_read_only {
            Access::ReadOnly
        } else {
            Access::Registrable
        }
    }
}

impl HostBytes for StorePages {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn stays_read_only(&self) -> bool {
        self.0.access() == Access::ReadOnly
    }

    fn while_registrable(&self, part: Range<usize>, run: &mut dyn FnMut()) -> io::Result<()> {
        if self.0.access() == Access::Registrable {
            self.0.while_writable(part, |_| run())
        } else {
            run();
            Ok(())
        }
    }
}
