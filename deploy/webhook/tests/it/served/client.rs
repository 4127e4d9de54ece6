//! A client as an API server is one: it trusts what the configuration names, and asks for the service's name.

use std::net::SocketAddr;
use std::sync::Arc;

use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::served::api::Api;
use crate::served::replica::{SERVER, trusted};

/// A connection with what was presented at its start.
pub struct Connection {
    sender: SendRequest<Full<Bytes>>,
    pub certificate: Option<CertificateDer<'static>>,
}

/// A connection over TLS, as the configuration in `api` has it now.
pub async fn connect(api: &Api, address: SocketAddr) -> Result<Connection, std::io::Error> {
    let bundle = api.with(|state| trusted(state)[0].clone().unwrap_or_default());
    connect_trusting(&bundle, address).await
}

/// A connection over TLS that trusts these authorities, in PEM.
pub async fn connect_trusting(
    bundle: &str,
    address: SocketAddr,
) -> Result<Connection, std::io::Error> {
    let stream = TcpStream::connect(address).await?;
    let stream = with_tls(bundle, stream).await?;
    let certificate = stream
        .get_ref()
        .1
        .peer_certificates()
        .map(|chain| chain[0].clone().into_owned());
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Ok(Connection {
        sender,
        certificate,
    })
}

/// TLS over a connection, trusting these authorities, in PEM.
pub async fn with_tls(
    bundle: &str,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, std::io::Error> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(SERVER).unwrap();
    TlsConnector::from(Arc::new(config))
        .connect(name, stream)
        .await
}

/// A connection without TLS.
pub async fn plain(address: SocketAddr) -> Connection {
    let stream = TcpStream::connect(address).await.unwrap();
    let (sender, connection) = handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let certificate = None;
    Connection {
        sender,
        certificate,
    }
}

impl Connection {
    pub async fn get(&mut self, path: &str) -> (StatusCode, String) {
        self.ask(Method::GET, path, String::new()).await
    }

    pub async fn post(&mut self, path: &str, body: impl Into<String>) -> (StatusCode, String) {
        self.ask(Method::POST, path, body.into()).await
    }

    async fn ask(&mut self, method: Method, path: &str, body: String) -> (StatusCode, String) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", SERVER);
        let request = request.body(Full::from(body)).unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    /// Waits until the server ends the connection.
    pub async fn ended(&mut self) {
        while !self.sender.is_closed() {
            tokio::task::yield_now().await;
        }
    }
}
