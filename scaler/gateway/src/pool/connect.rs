//! New connections.

use std::net::SocketAddr;

use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::runtime::Handle;

use super::RequestBody;
use super::error::ConnectError;
use crate::bounded_reads::BoundedReads;

/// Largest head of a response, in bytes.
const HEAD: usize = 64 << 10;
const HEADERS: u32 = 64 << 10;
/// Bytes of one response that may wait for its client. Many that wait leave room for the others on the connection.
const STREAM_WINDOW: u32 = 64 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;

pub(super) async fn http1(
    address: SocketAddr,
) -> Result<http1::SendRequest<RequestBody>, ConnectError> {
    let stream = stream(address).await?;
    let handshake = http1::Builder::new()
        .max_buf_size(HEAD)
        .handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await?;
    tokio::spawn(async move {
        // Requests that were on their way get the error, too.
        if let Err(error) = connection.await {
            tracing::debug!(%address, "connection to an instance: {error}");
        }
    });
    sender.ready().await?;
    Ok(sender)
}

/// Connects, with a connection that `runtime` drives.
pub(super) async fn http2(
    address: SocketAddr,
    runtime: Option<&Handle>,
) -> Result<http2::SendRequest<RequestBody>, ConnectError> {
    let connecting = async move {
        let stream = stream(address).await?;
        let handshake = http2::Builder::new(TokioExecutor::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(HEADERS)
            .handshake(TokioIo::new(BoundedReads::new(stream)));
        let (sender, connection) = handshake.await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%address, "connection to an instance: {error}");
            }
        });
        Ok(sender)
    };
    match runtime {
        // The socket belongs to the runtime in which it is made.
        Some(runtime) => runtime.spawn(connecting).await?,
        None => connecting.await,
    }
}

async fn stream(address: SocketAddr) -> Result<TcpStream, ConnectError> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}
