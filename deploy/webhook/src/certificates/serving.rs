//! The served certificate, replaced while connections are served.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::contents::Leaf;
use super::validity::Validity;

/// The served certificate. None at first: handshakes fail then.
#[derive(Debug, Default)]
pub struct Serving(RwLock<Option<Served>>);

/// A certificate with its life.
#[derive(Debug, Clone)]
pub struct Served {
    certified: Arc<CertifiedKey>,
    /// Its life.
    pub validity: Validity,
}

impl Serving {
    /// Serves this one from now on. Reports whether it is another one than before.
    pub fn install(&self, leaf: &Leaf) -> bool {
        let mut served = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let changed = served
            .as_ref()
            .is_none_or(|served| served.certified.cert != leaf.certified.cert);
        *served = Some(Served {
            certified: Arc::clone(&leaf.certified),
            validity: leaf.validity,
        });
        changed
    }

    /// Returns the served certificate.
    pub fn served(&self) -> Option<Served> {
        self.0
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.served()?.certified)
    }
}
