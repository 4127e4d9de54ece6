//! The scaler's image: nothing but the program, so no certificates but its own.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::whole::daemons::loopback;
use crate::whole::world::World;
use tetris_test_support::docker::{Container, Image, kubeconfig, missing};
use tetris_test_support::skipped::skipped;

fn image() -> Option<Image> {
    if let Some(reason) = missing() {
        skipped(&reason);
        return None;
    }
    let program = env!("CARGO_BIN_EXE_tetris-scaler");
    Some(Image::of("tetris-scaler", program, "65532:65532"))
}

/// A Prometheus with TLS in front of one without. The file has the certificate that its own is.
async fn with_tls(plain: SocketAddr, file: &Path) -> SocketAddr {
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    std::fs::write(file, certificate.pem()).unwrap();
    drop(rustls::crypto::ring::default_provider().install_default());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder().with_no_client_auth();
    let config = config.with_single_cert(vec![certificate.der().clone()], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // Clients that do not trust it hang up.
                if let Ok(mut outer) = acceptor.accept(stream).await {
                    let mut inner = TcpStream::connect(plain).await.unwrap();
                    drop(tokio::io::copy_bidirectional(&mut outer, &mut inner).await);
                }
            });
        }
    });
    address
}

impl World {
    /// A scaler from `image`, which asks the Prometheus at `url`.
    fn container(&self, image: &Image, url: &str, options: &[String], flags: &[&str]) -> Container {
        let mut options = options.to_vec();
        let server = format!("http://{}", self.server);
        options.extend(kubeconfig(self.dir.path(), &server));
        let prometheus = format!("--prometheus-url={url}");
        let address = loopback();
        let at = |flag: &str, port: u16| format!("--{flag}={address}:{port}");
        let ports = [at("listen", 9461), at("keda-listen", 9462)];
        let mut arguments = vec![
            "run",
            "--interval-seconds=1",
            "--poll-seconds=1",
            &prometheus,
        ];
        arguments.extend(ports.iter().map(String::as_str));
        arguments.extend(flags);
        image.start(&options, &arguments)
    }
}

#[test]
fn the_image_answers_version_and_help() {
    if let Some(image) = image() {
        image.answers_version_and_help();
    }
}

#[test]
fn the_image_reaches_an_api_server_whose_authority_nobody_names() {
    if let Some(image) = image() {
        let flags = ["--listen=127.0.0.1:0", "--keda-listen=127.0.0.1:0"];
        image.reaches_an_api_server(&[], &[&["run"][..], &flags].concat());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_image_needs_no_certificates_for_a_prometheus_without_tls() {
    let Some(image) = image() else { return };
    let world = World::new().await;
    world.function("f", 150.0);
    let url = format!("http://{}", world.prometheus);
    // Not even where a variable promises some that are not there.
    let options = ["--env=SSL_CERT_FILE=/nowhere/ca.pem".to_owned()];
    let _container = world.container(&image, &url, &options, &[]);
    world.until_ready("f", 2).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_image_trusts_the_certificates_that_a_flag_or_a_variable_names() {
    let Some(image) = image() else { return };
    for by_flag in [true, false] {
        let world = World::new().await;
        world.function("f", 150.0);
        let file = world.dir.path().join("ca.pem");
        let address = with_tls(world.prometheus, &file).await;
        let url = format!("https://{address}");
        let flag = format!("--prometheus-ca={}", file.display());
        let variable = format!("--env=SSL_CERT_FILE={}", file.display());
        let _container = if by_flag {
            world.container(&image, &url, &[], &[&flag])
        } else {
            world.container(&image, &url, &[variable], &[])
        };
        world.until_ready("f", 2).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_image_brings_certificates_and_says_when_they_did_not_sign_a_servers() {
    let Some(image) = image() else { return };
    let world = World::new().await;
    world.function("f", 150.0);
    let address = with_tls(world.prometheus, &world.dir.path().join("ca.pem")).await;
    let _container = world.container(&image, &format!("https://{address}"), &[], &[]);
    let condition = world
        .until_says("f", "LoadKnown", "Unknown", "Unreachable")
        .await;
    let message = condition["message"].as_str().unwrap();
    assert!(
        message.contains("UnknownIssuer") && message.contains("--prometheus-ca"),
        "{message}"
    );
}

#[test]
fn the_image_names_the_variable_by_which_there_are_no_certificates() {
    let Some(image) = image() else { return };
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut options = kubeconfig(dir.path(), "http://127.0.0.1:9").to_vec();
    options.push("--env=SSL_CERT_FILE=/nowhere/ca.pem".to_owned());
    let flags = ["--listen=127.0.0.1:0", "--keda-listen=127.0.0.1:0"];
    let arguments = [&["run", "--prometheus-url=https://127.0.0.1:9"][..], &flags].concat();
    let output = image.output(&options, &arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("Prometheus: SSL_CERT_FILE: ") && said.contains("/nowhere/ca.pem"),
        "{said}"
    );
}
