//! TLS of clients' connections.

mod certificate;

use std::io;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring::default_provider;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

pub(crate) use certificate::Certificate;
pub use certificate::CertificateError;

/// Memory of a handshake: messages of the client, whose size rustls limits, and keys.
pub(super) const HANDSHAKE: usize = 64 << 10;
/// Memory of a connection after it, in which a record may wait in each direction.
pub(super) const CONNECTION: usize = 40 << 10;
/// Output that rustls keeps for a client that does not read.
const UNREAD: usize = 16 << 10;

/// TLS 1.2 and 1.3 with a certificate from files, for HTTP/1 and HTTP/2. Clones share it.
#[derive(Clone)]
pub(crate) struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Serves with `certificate`, as it is at each handshake.
    pub(crate) fn try_new(certificate: Arc<Certificate>) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Shakes hands with a client.
    pub(super) async fn accept(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let limited = |connection: &mut rustls::ServerConnection| {
            connection.set_buffer_limit(Some(UNREAD));
        };
        self.0.accept_with(stream, limited).await
    }
}
