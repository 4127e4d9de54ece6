//! From when to when a certificate is valid.

use rustls::pki_types::CertificateDer;

use super::error::Flaw;

/// From when to when a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before: i64,
    /// The last second.
    pub not_after: i64,
}

impl Validity {
    /// Reads the validity of a certificate.
    pub fn of(certificate: &CertificateDer<'_>, field: &'static str) -> Result<Self, Flaw> {
        let (_, parsed) = x509_parser::parse_x509_certificate(certificate)
            .map_err(|error| Flaw::invalid(field, error))?;
        Ok(Self {
            not_before: parsed.validity().not_before.timestamp(),
            not_after: parsed.validity().not_after.timestamp(),
        })
    }

    /// Returns true if the certificate is valid at `now`.
    pub fn contains(&self, now: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now)
    }

    /// Time of the renewal: after two thirds.
    pub fn renewal(&self) -> i64 {
        let life = self.not_after.saturating_sub(self.not_before).max(0);
        self.not_before.saturating_add(life / 3 * 2)
    }
}
