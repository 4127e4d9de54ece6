//! Tests of KEDA's external scaler over HTTP/2, with the bytes that KEDA's client sends and reads.

mod bytes;
mod calls;
mod client;
mod snapshots;
mod streams;
