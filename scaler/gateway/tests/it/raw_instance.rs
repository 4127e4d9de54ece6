//! Instances that answer with bytes of a test's choice.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::port::Port;

pub struct RawInstance {
    pub address: SocketAddr,
    connections: Arc<AtomicUsize>,
    task: JoinHandle<()>,
    _port: Port,
}

impl RawInstance {
    /// Answers each head with `answer`, and leaves the connection open.
    pub fn start(answer: impl Into<Vec<u8>>) -> Self {
        let port = Port::take();
        let listener = port.listen();
        let connections = Arc::new(AtomicUsize::new(0));
        let (answer, counted) = (Arc::new(answer.into()), Arc::clone(&connections));
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (answer, counted) = (Arc::clone(&answer), Arc::clone(&counted));
                tokio::spawn(async move {
                    counted.fetch_add(1, Ordering::SeqCst);
                    serve(stream, &answer).await;
                    counted.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            address: port.address,
            connections,
            task,
            _port: port,
        }
    }

    /// Number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Drop for RawInstance {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Answers until the peer closes the connection.
async fn serve(mut stream: TcpStream, answer: &[u8]) {
    let mut head = Vec::new();
    while let Ok(1..) = stream.read_buf(&mut head).await {
        if head.windows(4).any(|end| end == b"\r\n\r\n") {
            head.clear();
            if stream.write_all(answer).await.is_err() {
                return;
            }
        }
    }
}
