//! Plan for certificates, purely.

use std::sync::Arc;
use std::time::Duration;

use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier as _;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{ServerName, UnixTime};

use super::contents::{Authorities, Contents, Leaf, fields};
use super::error::Flaw;

/// An action on certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Nothing.
    Keep,
    /// A new serving certificate of the authority that there is.
    Renew,
    /// A new authority beside the old one, and a new serving certificate that the old one signs.
    RenewCa,
    /// All of it new: nothing that is there can be used.
    Create,
}

impl Action {
    /// Those that make certificates.
    pub const ISSUING: [Self; 3] = [Self::Renew, Self::RenewCa, Self::Create];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Renew => "renew",
            Self::RenewCa => "renew-ca",
            Self::Create => "create",
        }
    }
}

/// An action, and its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The action.
    pub action: Action,
    /// The reason; none for [`Action::Keep`].
    pub reason: Option<Flaw>,
}

/// Plans the action at `now` (seconds since 1970) about certificates for a server called `name`.
pub fn plan(now: i64, contents: &Contents, name: &str) -> Plan {
    let because = |action, reason: Flaw| Plan {
        action,
        reason: Some(reason),
    };
    let field = fields::CA_CERTIFICATES;
    let authorities = match &contents.authorities {
        Ok(authorities) if authorities.validity.contains(now) => authorities,
        Ok(_) => return because(Action::Create, Flaw::Expired { field }),
        Err(flaw) => return because(Action::Create, flaw.clone()),
    };
    if now >= authorities.validity.renewal() {
        return because(Action::RenewCa, Flaw::Due { field });
    }
    let leaf = match &contents.leaf {
        Ok(leaf) => leaf,
        Err(flaw) => return because(Action::Renew, flaw.clone()),
    };
    if let Err(flaw) = verify(now, authorities, leaf, name) {
        return because(Action::Renew, flaw);
    }
    if now >= leaf.validity.renewal() {
        let field = fields::CERTIFICATE;
        return because(Action::Renew, Flaw::Due { field });
    }
    Plan {
        action: Action::Keep,
        reason: None,
    }
}

/// Verifies `leaf` as a client that trusts the authorities does.
fn verify(now: i64, authorities: &Authorities, leaf: &Leaf, name: &str) -> Result<(), Flaw> {
    let field = fields::CERTIFICATE;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities.certificates.iter().cloned());
    let verifier =
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::new(default_provider()))
            .build()
            .map_err(|error| Flaw::invalid(fields::CA_CERTIFICATES, error))?;
    let name = ServerName::try_from(name).map_err(|error| Flaw::invalid(field, error))?;
    let (first, others) = leaf
        .certified
        .cert
        .split_first()
        .ok_or(Flaw::Missing { field })?;
    let now = UnixTime::since_unix_epoch(Duration::from_secs(now.try_into().unwrap_or_default()));
    match verifier.verify_server_cert(first, others, &name, &[], now) {
        Ok(_) => Ok(()),
        Err(error) => Err(Flaw::invalid(field, error)),
    }
}
