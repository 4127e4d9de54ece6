//! The client's side: connections, and the audience of tokens for each.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::ring::default_provider;
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::audience;

/// Makes connections to servers of one service.
#[derive(Clone)]
pub struct BoundClient {
    connector: TlsConnector,
    service: &'static str,
}

impl fmt::Debug for BoundClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("BoundClient")
            .field("service", &self.service)
            .finish_non_exhaustive()
    }
}

/// A connection, and the audience of tokens for its server.
#[derive(Debug)]
pub struct BoundStream {
    /// The connection.
    pub stream: TlsStream<TcpStream>,
    /// Audience that a token must have, and no other, before it is sent on this connection.
    pub audience: String,
}

impl BoundClient {
    /// Makes connections to servers of `service`.
    ///
    /// # Errors
    ///
    /// Fails if the cryptography has no TLS 1.3.
    pub fn try_new(service: &'static str) -> Result<Self, Error> {
        let provider = Arc::new(default_provider());
        let verifier = Arc::new(AnyCertificate(Arc::clone(&provider)));
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config.resumption = Resumption::disabled();
        Ok(Self {
            connector: TlsConnector::from(Arc::new(config)),
            service,
        })
    }

    /// Shakes hands over `stream`, which leads to `address`.
    ///
    /// # Errors
    ///
    /// Fails if the server speaks no TLS 1.3, or has not the key of its certificate.
    pub async fn connect(&self, stream: TcpStream, address: IpAddr) -> io::Result<BoundStream> {
        let stream = self.connector.connect(ServerName::from(address), stream);
        let stream = stream.await?;
        let certificates = stream.get_ref().1.peer_certificates();
        let Some(certificate) = certificates.and_then(<[_]>::first) else {
            return Err(io::Error::other("the server showed no certificate"));
        };
        let audience = audience(self.service, certificate);
        Ok(BoundStream { stream, audience })
    }
}

/// Accepts every certificate of a server that has its key: the token is bound to the certificate.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 was not offered".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
