//! TLS with a certificate that may change.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use tokio_rustls::TlsAcceptor;

use crate::certificates::Serving;

/// Accepts TLS 1.2 and 1.3 with what `serving` has at the time. Fails only if the cryptography lacks both.
pub fn acceptor(serving: Arc<Serving>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_cert_resolver(serving);
    // API servers speak HTTP/1.1 with webhooks, to spread their requests over replicas.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
