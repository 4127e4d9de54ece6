//! HTTP to a pod: through a port that kubectl forwards, which no NetworkPolicy keeps out, or through the API server.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::Kubectl;

/// Longest wait for a byte of an answer: longer than a page waits for a stopped process.
const READ: Duration = Duration::from_mins(1);

/// The body at `path` of a pod's port.
///
/// # Errors
/// When neither way leads there, or the answer is not 200.
pub fn get(kubectl: Kubectl, namespace: &str, pod: &str, port: u16, path: &str) -> Result<String> {
    forwarded(kubectl, namespace, pod, port, path).or_else(|first| {
        let proxy = format!("/api/v1/namespaces/{namespace}/pods/http:{pod}:{port}/proxy{path}");
        let body = kubectl.run(&["get", "--raw", &proxy]);
        body.with_context(|| format!("forwarding failed as well: {first:#}"))
    })
}

/// A `kubectl port-forward` that ends with this value.
struct Forward(Child);

impl Drop for Forward {
    fn drop(&mut self) {
        let _ended_by_itself = self.0.kill();
        let _ended = self.0.wait();
    }
}

fn forwarded(
    kubectl: Kubectl,
    namespace: &str,
    pod: &str,
    port: u16,
    path: &str,
) -> Result<String> {
    let (pod, port) = (format!("pod/{pod}"), format!(":{port}"));
    let mut command = kubectl.command(&["port-forward", "--address", "127.0.0.1", "-n", namespace]);
    command
        .args([&pod, &port])
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut forward = Forward(command.spawn()?);
    let stdout = forward.0.stdout.take().context("no output of kubectl")?;
    let mut line = String::new();
    let mut stdout = BufReader::new(stdout);
    stdout.read_line(&mut line)?;
    let port = forwarded_port(&line).with_context(|| format!("kubectl port-forward: {line:?}"))?;
    request(TcpStream::connect((Ipv4Addr::LOCALHOST, port))?, path)
}

/// Of `Forwarding from 127.0.0.1:41231 -> 9460`.
fn forwarded_port(line: &str) -> Option<u16> {
    let (address, _) = line.strip_prefix("Forwarding from ")?.split_once(" -> ")?;
    address.rsplit_once(':')?.1.parse().ok()
}

/// The daemon ends the connection after each answer.
fn request(mut stream: TcpStream, path: &str) -> Result<String> {
    stream.set_read_timeout(Some(READ))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no HTTP answer")?;
    let status = head.split(' ').nth(1);
    if status != Some("200") {
        bail!("GET {path}: {head}");
    }
    Ok(body.to_owned())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn the_port_is_read_from_what_kubectl_says() {
        assert_eq!(
            forwarded_port("Forwarding from 127.0.0.1:41231 -> 9460\n"),
            Some(41231)
        );
        assert_eq!(forwarded_port("error: unable to forward port\n"), None);
        assert_eq!(forwarded_port(""), None);
    }

    #[test]
    fn a_body_comes_with_200_alone() {
        for (answer, expected) in [
            ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", Some("{}")),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\nno pass", None),
            ("", None),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let server = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut line = String::new();
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while reader.read_line(&mut line).unwrap() > 2 {}
                stream.write_all(answer.as_bytes()).unwrap();
                line
            });
            let body = request(TcpStream::connect(address).unwrap(), "/status").ok();
            assert!(
                server
                    .join()
                    .unwrap()
                    .starts_with("GET /status HTTP/1.0\r\n")
            );
            assert_eq!(body.as_deref(), expected);
        }
    }
}
