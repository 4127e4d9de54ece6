//! The server's side: its certificate, and connections over TLS.

use std::sync::Arc;
use std::time::Duration;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::version::TLS13;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::audience;
use crate::http::{OneRequest, TimedStream, Transport};

/// The reason there is no certificate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BoundTlsError {
    /// The certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The certificate cannot be used.
    #[error("cannot serve with the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

/// TLS 1.3 with a certificate of this process, for one request on each connection.
#[derive(Clone)]
pub struct BoundTls {
    acceptor: TlsAcceptor,
    audience: Arc<str>,
    handshake: Duration,
    requests: OneRequest,
}

impl BoundTls {
    /// Makes the certificate of a server of `service`. Handshakes may take as long as `handshake`,
    /// and after them the deadlines of `requests` count.
    ///
    /// # Errors
    ///
    /// Fails if the system gives no random bytes.
    pub fn try_new(
        service: &str,
        handshake: Duration,
        requests: OneRequest,
    ) -> Result<Self, BoundTlsError> {
        let key = KeyPair::generate()?;
        let certificate = CertificateParams::new([service.to_owned()])?.self_signed(&key)?;
        let audience = audience(service, certificate.der()).into();
        let key = PrivatePkcs8KeyDer::from(key.serialize_der());
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key.into())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // Each connection shows the certificate, to which the client binds its token.
        config.send_tls13_tickets = 0;
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            audience,
            handshake,
            requests,
        })
    }

    /// Returns the audience that tokens for this server have.
    pub fn audience(&self) -> &str {
        &self.audience
    }
}

impl Transport for BoundTls {
    type Stream = TimedStream<TlsStream<TcpStream>>;

    async fn open(&self, connection: TcpStream) -> Option<Self::Stream> {
        let handshake = self.acceptor.accept(connection);
        match tokio::time::timeout(self.handshake, handshake).await {
            Ok(Ok(stream)) => Some(self.requests.over(stream)),
            Ok(Err(error)) => {
                tracing::debug!("handshake: {error}");
                None
            }
            Err(_) => {
                tracing::debug!("handshake: the client was too slow");
                None
            }
        }
    }
}
