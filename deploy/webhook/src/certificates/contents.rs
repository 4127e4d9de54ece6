//! Contents of the secret. Anyone who may write it may have written anything.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::ByteString;
use rcgen::{KeyPair, PublicKeyData as _};
use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

use super::error::Flaw;
use super::validity::Validity;

/// Names of the secret's fields.
pub mod fields {
    /// Certificate authorities, the one that signs first.
    pub const CA_CERTIFICATES: &str = "ca.crt";
    /// The key of the first of them.
    pub const CA_KEY: &str = "ca.key";
    /// The serving certificate.
    pub const CERTIFICATE: &str = "tls.crt";
    /// Its key.
    pub const KEY: &str = "tls.key";
}

/// More authorities than ever are in force at once.
const MAX_AUTHORITIES: usize = 8;

/// Usable contents of the secret.
#[derive(Debug)]
pub struct Contents {
    /// The certificate authorities.
    pub authorities: Result<Authorities, Flaw>,
    /// The serving certificate.
    pub leaf: Result<Leaf, Flaw>,
}

/// The certificate authorities in force.
#[derive(Debug)]
pub struct Authorities {
    /// Their certificates, the one that signs first.
    pub certificates: Vec<CertificateDer<'static>>,
    /// The life of the first.
    pub validity: Validity,
    /// The key of the first.
    pub key: KeyPair,
}

/// The serving certificate with its key.
#[derive(Debug)]
pub struct Leaf {
    /// Both, as rustls serves them.
    pub certified: Arc<CertifiedKey>,
    /// Its life.
    pub validity: Validity,
}

impl Contents {
    /// Reads a secret's data.
    pub fn read(data: &BTreeMap<String, ByteString>) -> Self {
        Self {
            authorities: Authorities::read(data),
            leaf: Leaf::read(data),
        }
    }
}

impl Authorities {
    fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, Flaw> {
        let field = fields::CA_CERTIFICATES;
        let certificates = certificates(data, field)?;
        if certificates.len() > MAX_AUTHORITIES {
            let reason = format!(
                "expected at most {MAX_AUTHORITIES}, found {}",
                certificates.len()
            );
            return Err(Flaw::invalid(field, reason));
        }
        let first = certificates.first().ok_or(Flaw::Missing { field })?;
        let validity = Validity::of(first, field)?;
        let key = signing_key(data)?;
        let (_, parsed) = x509_parser::parse_x509_certificate(first)
            .map_err(|error| Flaw::invalid(field, error))?;
        if parsed.public_key().raw != key.subject_public_key_info() {
            let reason = "expected the key of the first certificate of `ca.crt`";
            return Err(Flaw::invalid(fields::CA_KEY, reason));
        }
        if !parsed.is_ca() {
            let reason = "expected a certificate authority first";
            return Err(Flaw::invalid(field, reason));
        }
        Ok(Self {
            certificates,
            validity,
            key,
        })
    }
}

impl Leaf {
    fn read(data: &BTreeMap<String, ByteString>) -> Result<Self, Flaw> {
        let field = fields::CERTIFICATE;
        let chain = certificates(data, field)?;
        let first = chain.first().ok_or(Flaw::Missing { field })?;
        let validity = Validity::of(first, field)?;
        let key = PrivateKeyDer::from_pem_slice(bytes(data, fields::KEY)?)
            .map_err(|_| Flaw::invalid(fields::KEY, "expected a private key in PEM"))?;
        let certified = CertifiedKey::from_der(chain, key, &default_provider())
            .map_err(|error| Flaw::invalid(fields::KEY, error))?;
        Ok(Self {
            certified: Arc::new(certified),
            validity,
        })
    }
}

fn bytes<'a>(
    data: &'a BTreeMap<String, ByteString>,
    field: &'static str,
) -> Result<&'a [u8], Flaw> {
    match data.get(field) {
        Some(ByteString(bytes)) if !bytes.is_empty() => Ok(bytes),
        _ => Err(Flaw::Missing { field }),
    }
}

fn certificates(
    data: &BTreeMap<String, ByteString>,
    field: &'static str,
) -> Result<Vec<CertificateDer<'static>>, Flaw> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(bytes(data, field)?).collect();
    match all {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        _ => Err(Flaw::invalid(field, "expected certificates in PEM")),
    }
}

fn signing_key(data: &BTreeMap<String, ByteString>) -> Result<KeyPair, Flaw> {
    let field = fields::CA_KEY;
    let invalid = || Flaw::invalid(field, "expected a private key in PEM (PKCS #8)");
    let text = std::str::from_utf8(bytes(data, field)?).map_err(|_| invalid())?;
    KeyPair::from_pem(text).map_err(|_| invalid())
}
