//! KEDA's external scaler over HTTP/2: bytes as KEDA's client sends them, and the bytes that it reads.

mod bytes;
mod calls;
mod client;
mod snapshots;
mod streams;
