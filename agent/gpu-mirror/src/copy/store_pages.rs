//! The store's pages, as a driver can register them.

use std::io;
use std::sync::Arc;

use tetris_store_layout::{Access, Mapping};

use crate::memory::{Capabilities, HostBytes};

/// A mapping of the store, whose pages can be registered with a driver that does not take read-only ones, if they were mapped for that
/// ([`Self::access`]).
#[derive(Debug, Clone)]
pub struct StorePages(Arc<Mapping>);

impl StorePages {
    /// The bytes of this mapping.
    pub fn new(mapping: Arc<Mapping>) -> Self {
        Self(mapping)
    }

    /// What to map objects with whose bytes are copied to a device that can do this.
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

    fn while_registrable(&self, run: &mut dyn FnMut()) -> io::Result<()> {
        if self.0.access() == Access::Registrable {
            self.0.while_writable(|_| run())
        } else {
            run();
            Ok(())
        }
    }
}
