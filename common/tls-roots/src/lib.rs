//! The certificates that servers are trusted by, for clients that run in images of nothing but a binary.
//!
//! Order: the files that `SSL_CERT_FILE` and `SSL_CERT_DIR` name, and nothing else where one of them is set; the system's
//! certificates; where it has none, the compiled-in ones of Mozilla.
//!
//! Guarantees:
//! - An address without TLS needs no certificates and reads no file.
//! - A variable that is set never widens trust: if it yields no certificate, that is an error, and the compiled-in ones stay unused.
//! - Each certificate returned is one that rustls takes. The system's others are left out, as other programs do.

use std::env::var_os;

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls_native_certs::{CertificateResult, load_native_certs};
use thiserror::Error;
use webpki_root_certs::TLS_SERVER_ROOT_CERTS;

/// The variables by which users name certificates, as OpenSSL and Go have them.
const VARIABLES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// A reason for which there are no certificates.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RootsError {
    /// The variables name no certificate.
    #[error(
        "{variables}: expected certificates in PEM, found none{problem}; correct the variable, or remove it to trust the system's certificates"
    )]
    Named {
        /// The variables that are set.
        variables: String,
        /// The first error with the files, if there was one.
        problem: String,
    },
}

/// The certificates, in DER, that the server at `url` may be signed by; none for an address without TLS.
pub fn roots_for(url: &str) -> Result<Vec<Vec<u8>>, RootsError> {
    let tls = url
        .get(..6)
        .is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:"));
    if !tls {
        return Ok(Vec::new());
    }
    let is_set = |name: &&str| var_os(name).is_some_and(|value| !value.is_empty());
    let variables: Vec<_> = VARIABLES.into_iter().filter(is_set).collect();
    choose(&load_native_certs(), &variables)
}

/// Returns the certificates in `found`, or the compiled-in ones if there are none and no variable names any.
fn choose(found: &CertificateResult, variables: &[&str]) -> Result<Vec<Vec<u8>>, RootsError> {
    let mut store = RootCertStore::empty();
    let usable = found
        .certs
        .iter()
        .filter(|certificate| store.add((*certificate).clone()).is_ok());
    let usable: Vec<_> = usable.map(der).collect();
    if !usable.is_empty() {
        return Ok(usable);
    }
    if !variables.is_empty() {
        return Err(RootsError::Named {
            variables: variables.join(" and "),
            problem: found
                .errors
                .first()
                .map(|error| format!(" ({error})"))
                .unwrap_or_default(),
        });
    }
    tracing::debug!("the system has no CA certificates: the compiled-in ones are trusted");
    Ok(TLS_SERVER_ROOT_CERTS.iter().map(der).collect())
}

fn der(certificate: &CertificateDer<'_>) -> Vec<u8> {
    certificate.to_vec()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustls_native_certs::load_certs_from_paths;

    use super::*;

    fn nothing() -> CertificateResult {
        CertificateResult::default()
    }

    fn pem(dir: &Path, text: &str) -> CertificateResult {
        let path = dir.join("ca.pem");
        std::fs::write(&path, text).unwrap();
        load_certs_from_paths(Some(&path), None)
    }

    fn authority() -> rcgen::Certificate {
        let mut parameters = rcgen::CertificateParams::default();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().unwrap();
        parameters.self_signed(&key).unwrap()
    }

    #[test]
    fn an_address_without_tls_needs_none() {
        for url in ["http://prometheus:9090", "http://x/https:", "", "ht"] {
            assert_eq!(roots_for(url), Ok(Vec::new()), "{url}");
        }
    }

    #[test]
    fn a_system_without_certificates_gets_the_compiled_in_ones_and_rustls_takes_each() {
        let roots = choose(&nothing(), &[]).unwrap();
        assert!(roots.len() > 100, "{}", roots.len());
        let mut store = RootCertStore::empty();
        let all = roots.into_iter().map(CertificateDer::from);
        assert_eq!(store.add_parsable_certificates(all).1, 0);
    }

    #[test]
    fn what_is_found_is_trusted_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let authority = authority();
        for variables in [&[][..], &["SSL_CERT_FILE"]] {
            let roots = pem(dir.path(), &authority.pem());
            let expected = [authority.der().to_vec()];
            assert_eq!(choose(&roots, variables).unwrap(), expected);
        }
    }

    #[test]
    fn a_certificate_that_rustls_cannot_take_does_not_spoil_the_others() {
        let dir = tempfile::tempdir().unwrap();
        let authority = authority();
        let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let roots = pem(dir.path(), &format!("{broken}{}", authority.pem()));
        assert_eq!(roots.certs.len(), 2);
        assert_eq!(choose(&roots, &[]).unwrap(), [authority.der().to_vec()]);
    }

    #[test]
    fn a_variable_that_names_no_certificate_is_an_error_and_trusts_nobody_else() {
        let missing = load_certs_from_paths(Some(Path::new("/nowhere/ca.pem")), None);
        let error = choose(&missing, &["SSL_CERT_FILE"])
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("SSL_CERT_FILE: "), "{error}");
        assert!(error.contains("/nowhere/ca.pem"), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let empty = load_certs_from_paths(None, Some(dir.path()));
        let error = choose(&empty, &VARIABLES).unwrap_err().to_string();
        assert!(error.contains("SSL_CERT_FILE and SSL_CERT_DIR"), "{error}");
    }
}
