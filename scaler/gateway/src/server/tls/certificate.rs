//! Certificate of the gateway, from files that may change.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rustls::crypto::ring::default_provider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use thiserror::Error;

use crate::config::TlsConfig;

/// Largest file. A chain of a few certificates has some kilobytes.
const MAX_BYTES: u64 = 1 << 20;
/// Interval in which the files are looked at.
const FOLLOW: Duration = Duration::from_secs(5);

const CERTIFICATES: &str = "certificates in PEM";

/// Device, inode, time in seconds and nanoseconds, and size of a file.
type Stamp = (u64, u64, i64, i64, u64);

/// The reason a certificate cannot be served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CertificateError {
    /// A file that cannot be read.
    #[error("{path}: {source}; the gateway's user must be able to read it", path = path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file with other contents than expected.
    #[error("{path}: found {found}, expected {expected}", path = path.display())]
    Contents {
        /// Path of the file.
        path: PathBuf,
        /// Contents that were found.
        found: String,
        /// Contents that were expected.
        expected: &'static str,
    },
    /// A key of another certificate, or of an unknown kind.
    #[error("{certificate} with {key}: {source}; the key must be that of the first certificate", certificate = certificate.display(), key = key.display())]
    Key {
        /// Path of the certificate.
        certificate: PathBuf,
        /// Path of the key.
        key: PathBuf,
        /// Cause.
        source: rustls::Error,
    },
}

/// The served certificate, read again when its files change.
pub(crate) struct Certificate {
    files: TlsConfig,
    current: RwLock<Arc<CertifiedKey>>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Certificate")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let current = self.current.read();
        Some(Arc::clone(&current.unwrap_or_else(PoisonError::into_inner)))
    }
}

impl Certificate {
    /// Reads the files.
    pub(crate) fn read(files: &TlsConfig) -> Result<Self, CertificateError> {
        Ok(Self {
            files: files.clone(),
            current: RwLock::new(Arc::new(certified(files)?)),
        })
    }

    /// Reads the files again whenever they have changed, for ever. Wrong ones change nothing: the files may be written
    /// one after the other.
    pub(crate) async fn follow(&self) {
        let mut known = self.stamps();
        loop {
            tokio::time::sleep(FOLLOW).await;
            let stamps = self.stamps();
            if stamps == known {
                continue;
            }
            known = stamps;
            match certified(&self.files) {
                Ok(certified) => {
                    let current = self.current.write();
                    *current.unwrap_or_else(PoisonError::into_inner) = Arc::new(certified);
                    let path = self.files.certificate.display();
                    tracing::info!(%path, "certificate read again");
                }
                Err(error) => {
                    tracing::error!("{error}; the certificate before it stays in force");
                }
            }
        }
    }

    /// Signs by which a file differs from the one before it, also behind links that were exchanged.
    fn stamps(&self) -> [Option<Stamp>; 2] {
        [&self.files.certificate, &self.files.key].map(|path| {
            let stat = std::fs::metadata(path).ok()?;
            Some((
                stat.dev(),
                stat.ino(),
                stat.mtime(),
                stat.mtime_nsec(),
                stat.size(),
            ))
        })
    }
}

fn certified(files: &TlsConfig) -> Result<CertifiedKey, CertificateError> {
    let TlsConfig { certificate, key } = files;
    let chain = CertificateDer::pem_slice_iter(&contents(certificate)?).collect();
    let chain: Result<Vec<_>, _> = chain;
    let wrong = |path: &Path, found: String, expected| CertificateError::Contents {
        path: path.to_owned(),
        found,
        expected,
    };
    let chain = chain.map_err(|error| wrong(certificate, error.to_string(), CERTIFICATES))?;
    if chain.is_empty() {
        return Err(wrong(
            certificate,
            "no certificate".to_owned(),
            CERTIFICATES,
        ));
    }
    let private = PrivateKeyDer::from_pem_slice(&contents(key)?)
        .map_err(|error| wrong(key, error.to_string(), "a private key in PEM"))?;
    CertifiedKey::from_der(chain, private, &default_provider()).map_err(|source| {
        CertificateError::Key {
            certificate: certificate.clone(),
            key: key.clone(),
            source,
        }
    })
}

fn contents(path: &Path) -> Result<Vec<u8>, CertificateError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|source| CertificateError::Read {
        path: path.to_owned(),
        source,
    })?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(CertificateError::Contents {
            path: path.to_owned(),
            found: format!("more than {MAX_BYTES} bytes"),
            expected: "PEM of at most 1 MiB",
        });
    }
    Ok(bytes)
}
