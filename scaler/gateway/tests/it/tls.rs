//! TLS of clients: both protocols, certificates that change, and clients that stop within a handshake.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::{http1, http2};
use hyper::{Request, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{CertificateParams, CertifiedKey, KeyPair, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tetris_gateway::cli::{Cli, Command};
use tetris_gateway::run::run_until;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::client::whole;
use crate::gateway::{Gateway, function};
use crate::instance::{Instance, Mode};

const NAME: &str = "gateway.example.com";

fn certificate() -> CertifiedKey<KeyPair> {
    generate_simple_self_signed([NAME.to_owned()]).unwrap()
}

fn write(folder: &Path, made: &CertifiedKey<KeyPair>) {
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
}

fn section(folder: &Path) -> String {
    let file = |name| folder.join(name).display().to_string();
    format!(
        "[tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        file("tls.crt"),
        file("tls.key")
    )
}

/// Connects, and trusts one certificate.
async fn connect(
    address: SocketAddr,
    trusted: &CertificateDer<'static>,
    protocol: &str,
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from(NAME).unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await
}

fn infer() -> Request<Full<Bytes>> {
    let uri = format!("https://{NAME}/functions/embed/v2/models/m/infer");
    let request = Request::post(uri).header("host", NAME);
    request.body(Full::new(Bytes::from_static(b"{}"))).unwrap()
}

#[tokio::test]
async fn both_protocols_are_served_within_tls_and_nothing_without() {
    let (folder, made) = (tempfile::tempdir().unwrap(), certificate());
    write(folder.path(), &made);
    let instance = Instance::start("one", Mode::Answer);
    let text = section(folder.path()) + &function("embed", "", &[instance.address], 4);
    let gateway = Gateway::start(&text).await;
    let trusted = made.cert.der();

    let stream = connect(gateway.address, trusted, "http/1.1").await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    for _ in 0..2 {
        let answer = whole(sender.send_request(infer()).await.unwrap()).await;
        assert_eq!((answer.status, &*answer.body), (StatusCode::OK, "one"));
    }

    let stream = connect(gateway.address, trusted, "h2").await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let executor = TokioExecutor::new();
    let (mut sender, connection) = http2::handshake(executor, TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let answer = whole(sender.send_request(infer()).await.unwrap()).await;
    assert_eq!((answer.status, &*answer.body), (StatusCode::OK, "one"));

    let mut plain = TcpStream::connect(gateway.address).await.unwrap();
    plain
        .write_all(b"GET /v2 HTTP/1.1\r\nhost: g\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    drop(plain.read_to_end(&mut answer).await);
    assert!(!answer.starts_with(b"HTTP/"), "answered without TLS");
    assert_eq!(instance.seen().len(), 3);
}

#[tokio::test]
async fn a_new_certificate_is_served_and_a_wrong_one_is_not() {
    let (folder, first, second) = (tempfile::tempdir().unwrap(), certificate(), certificate());
    write(folder.path(), &first);
    let gateway = Gateway::start(&section(folder.path())).await;
    let shows = async |made: &CertifiedKey<KeyPair>| {
        connect(gateway.address, made.cert.der(), "h2")
            .await
            .is_ok()
    };
    assert!(shows(&first).await && !shows(&second).await);
    // The certificate of one and the key of the other, as between two writes.
    std::fs::write(folder.path().join("tls.crt"), second.cert.pem()).unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(shows(&first).await, "half of a change counts");
    write(folder.path(), &second);
    while !shows(&second).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(!shows(&first).await);
    std::fs::write(folder.path().join("tls.key"), "nonsense").unwrap();
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(shows(&second).await);
}

#[tokio::test]
async fn files_that_cannot_be_used_end_the_start_and_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let start = async || {
        let path = folder.path().join("gateway.toml");
        std::fs::write(&path, section(folder.path())).unwrap();
        let shown = path.to_str().unwrap().to_owned();
        let port = "127.0.0.1:0";
        let cli = [
            "tetris-gateway",
            "run",
            "--config",
            &shown,
            "--listen",
            port,
        ];
        let cli =
            <Cli as clap::Parser>::parse_from(cli.into_iter().chain(["--metrics-listen", port]));
        let Command::Run(args) = cli.command else {
            unreachable!()
        };
        let stop = async {};
        run_until(&args, stop, |_| {})
            .await
            .unwrap_err()
            .to_string()
    };
    let missing = start().await;
    assert!(missing.contains("tls.crt: No such file"), "{missing}");
    write(folder.path(), &certificate());
    std::fs::write(
        folder.path().join("tls.key"),
        certificate().signing_key.serialize_pem(),
    )
    .unwrap();
    let other = start().await;
    assert!(
        other.contains("the key must be that of the first certificate"),
        "{other}"
    );
    std::fs::write(folder.path().join("tls.crt"), "").unwrap();
    let empty = start().await;
    assert!(empty.contains("tls.crt: found no certificate"), "{empty}");
    std::fs::write(folder.path().join("tls.crt"), vec![b'a'; 2 << 20]).unwrap();
    let large = start().await;
    assert!(large.contains("found more than 1048576 bytes"), "{large}");
    let params = CertificateParams::new([NAME.to_owned()]).unwrap();
    let key = KeyPair::generate().unwrap();
    std::fs::write(
        folder.path().join("tls.crt"),
        params.self_signed(&key).unwrap().pem(),
    )
    .unwrap();
    std::fs::write(folder.path().join("tls.key"), "").unwrap();
    let keyless = start().await;
    assert!(
        keyless.contains("expected a private key in PEM"),
        "{keyless}"
    );
}

#[tokio::test]
async fn clients_that_stop_within_a_handshake_hold_a_part_of_the_memory_for_a_time() {
    let (folder, made) = (tempfile::tempdir().unwrap(), certificate());
    write(folder.path(), &made);
    let instance = Instance::start("one", Mode::Answer);
    let more = "[limits]\nheads = \"4MiB\"\nbody = \"64KiB\"\n[timeouts]\nhead = \"2s\"\n";
    let text = format!(
        "{more}{}{}",
        section(folder.path()),
        function("embed", "", &[instance.address], 4)
    );
    let gateway = Gateway::start(&text).await;
    // Half of the budget holds 32 handshakes of 64 KiB.
    let mut silent = Vec::new();
    for _ in 0..200 {
        let mut stream = TcpStream::connect(gateway.address).await.unwrap();
        // The begin of a record.
        drop(stream.write_all(&[22, 3, 1, 2, 0]).await);
        silent.push(stream);
    }
    let metrics = gateway.page("/metrics").await;
    let used = metrics
        .lines()
        .find_map(|line| line.strip_prefix("tetris_gateway_memory_bytes{budget=\"heads\"} "));
    let used: usize = used.unwrap().parse().unwrap();
    assert!(
        (1 << 20..=2 << 20).contains(&used),
        "{used} bytes of one client"
    );
    for stream in &mut silent {
        let mut rest = Vec::new();
        drop(stream.read_to_end(&mut rest).await);
    }
    let stream = connect(gateway.address, made.cert.der(), "http/1.1")
        .await
        .unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let answer = whole(sender.send_request(infer()).await.unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK);
}
