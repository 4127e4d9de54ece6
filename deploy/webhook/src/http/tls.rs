//! TLS with a certificate that may change.

use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use tetris_service_kit::http::Transport;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates::Serving;
use crate::metrics::Metrics;

/// TLS 1.2 and 1.3 with the certificate served at the time. Handshakes are counted.
#[derive(Clone)]
pub struct Tls {
    acceptor: TlsAcceptor,
    metrics: Arc<Metrics>,
    handshake: Duration,
}

impl Tls {
    /// Handshakes may take as long as `handshake`.
    ///
    /// # Errors
    ///
    /// Fails if the cryptography has neither version of TLS.
    pub fn try_new(
        serving: Arc<Serving>,
        metrics: Arc<Metrics>,
        handshake: Duration,
    ) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(serving);
        // API servers speak HTTP/1.1 with webhooks, to spread their requests over replicas.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            metrics,
            handshake,
        })
    }
}

impl Transport for Tls {
    type Stream = TlsStream<TcpStream>;

    async fn open(&self, connection: TcpStream) -> Option<Self::Stream> {
        let handshake = self.acceptor.accept(connection);
        let handshake = tokio::time::timeout(self.handshake, handshake).await;
        self.metrics.handshake(matches!(handshake, Ok(Ok(_))));
        match handshake {
            Ok(Ok(stream)) => Some(stream),
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
