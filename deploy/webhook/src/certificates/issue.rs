//! New certificates.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SigningKey,
};
use rustls::pki_types::CertificateDer;
use time::OffsetDateTime;

use super::contents::{Authorities, Contents, fields};
use super::error::IssueError;
use super::plan::Action;
use super::validity::Validity;
use super::{BACKDATED, CA_DAYS, SERVING_DAYS};

const DAY_SECONDS: i64 = 24 * 60 * 60;

/// A secret's data.
type Data = BTreeMap<String, ByteString>;

/// Returns the secret's data after `action` on `contents` at `now`, for a server called `name`: all four fields. None for [`Action::Keep`].
pub fn apply(
    action: Action,
    now: i64,
    contents: Contents,
    name: &str,
) -> Result<Option<Data>, IssueError> {
    match action {
        Action::Keep => Ok(None),
        Action::Create => create(now, name).map(Some),
        Action::Renew => renew(now, &contents.authorities?, name).map(Some),
        Action::RenewCa => renew_ca(now, &contents.authorities?, name).map(Some),
    }
}

/// A new authority and a serving certificate that it signs.
pub fn create(now: i64, name: &str) -> Result<Data, IssueError> {
    let ca = authority(now)?;
    let mut data = serving(now, name, &ca, now.saturating_add(days(CA_DAYS)))?;
    put(&mut data, fields::CA_CERTIFICATES, ca.pem());
    put(&mut data, fields::CA_KEY, ca.key().serialize_pem());
    Ok(data)
}

/// A new serving certificate. Authorities that have expired go.
fn renew(now: i64, authorities: &Authorities, name: &str) -> Result<Data, IssueError> {
    let mut data = signed_by(now, authorities, name)?;
    put(
        &mut data,
        fields::CA_CERTIFICATES,
        in_force(now, authorities),
    );
    put(&mut data, fields::CA_KEY, authorities.key.serialize_pem());
    Ok(data)
}

/// A new authority in front of the old one, which signs for the last time: by the next renewal every API server knows the
/// new one.
fn renew_ca(now: i64, authorities: &Authorities, name: &str) -> Result<Data, IssueError> {
    let ca = authority(now)?;
    let mut data = signed_by(now, authorities, name)?;
    let bundle = ca.pem() + &in_force(now, authorities);
    put(&mut data, fields::CA_CERTIFICATES, bundle);
    put(&mut data, fields::CA_KEY, ca.key().serialize_pem());
    Ok(data)
}

fn signed_by(now: i64, authorities: &Authorities, name: &str) -> Result<Data, IssueError> {
    let first = authorities.certificates.first();
    let first = first.ok_or(super::Flaw::Missing {
        field: fields::CA_CERTIFICATES,
    })?;
    let issuer = Issuer::from_ca_cert_der(first, &authorities.key)?;
    serving(now, name, &issuer, authorities.validity.not_after)
}

fn authority(now: i64) -> Result<CertifiedIssuer<'static, KeyPair>, IssueError> {
    let mut params = CertificateParams::default();
    // Its own name for each, so that clients tell the old one from the new.
    params.distinguished_name = called(&format!("tetris-webhook CA {now}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    live(&mut params, now, now.saturating_add(days(CA_DAYS)))?;
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
}

/// A serving certificate that ends no later than the authority, with its key.
fn serving(
    now: i64,
    name: &str,
    issuer: &Issuer<'_, impl SigningKey>,
    ca_not_after: i64,
) -> Result<Data, IssueError> {
    let mut params = CertificateParams::new([name.to_owned()])?;
    params.distinguished_name = called("tetris-webhook");
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    live(
        &mut params,
        now,
        now.saturating_add(days(SERVING_DAYS)).min(ca_not_after),
    )?;
    let key = KeyPair::generate()?;
    let certificate: Certificate = params.signed_by(&key, issuer)?;
    let mut data = Data::new();
    put(&mut data, fields::CERTIFICATE, certificate.pem());
    put(&mut data, fields::KEY, key.serialize_pem());
    Ok(data)
}

/// The authorities that have not expired, in PEM.
fn in_force(now: i64, authorities: &Authorities) -> String {
    let valid = |der: &&CertificateDer<'_>| {
        Validity::of(der, fields::CA_CERTIFICATES).is_ok_and(|validity| validity.not_after >= now)
    };
    let certificates = authorities.certificates.iter().filter(valid);
    certificates.map(super::pem).collect()
}

fn called(name: &str) -> DistinguishedName {
    let mut called = DistinguishedName::new();
    called.push(DnType::CommonName, name);
    called
}

fn live(params: &mut CertificateParams, now: i64, not_after: i64) -> Result<(), IssueError> {
    let moment = |seconds| {
        OffsetDateTime::from_unix_timestamp(seconds).map_err(|_| IssueError::Time { now })
    };
    params.not_before = moment(now.saturating_sub(BACKDATED.as_secs().cast_signed()))?;
    params.not_after = moment(not_after)?;
    Ok(())
}

const fn days(days: u64) -> i64 {
    days.cast_signed() * DAY_SECONDS
}

fn put(data: &mut Data, field: &str, pem: String) {
    data.insert(field.to_owned(), ByteString(pem.into_bytes()));
}
