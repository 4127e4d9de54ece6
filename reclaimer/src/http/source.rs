//! Interface to the pages of the servers: made in this process, or fetched from another.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::middleware::{from_fn_with_state, map_response};

use tetris_service_kit::token_reviews::TokenReviewer;

use super::access::{Gate, admit};
use super::{Limits, close};

/// Source of the pages of each server. Clones share it.
pub trait PageSource: Clone + Send + Sync + 'static {
    /// Router of all pages.
    fn all(&self) -> Router;

    /// Router of `/metrics`.
    fn metrics(&self) -> Router;

    /// Router of the probes, of which none names a store.
    fn probes(&self) -> Router;

    /// Router of the pages with ids of models and objects, for clients that [`gated`] admits.
    fn tensors(&self) -> Router;

    /// Limits of the servers of pages.
    fn limits(&self) -> Limits;

    /// Limits of the server of probes.
    fn limits_of_probes(&self) -> Limits;

    /// Drops pages that no client would be answered with, again and again.
    fn sweep(&self) -> impl Future<Output = ()> + Send;
}

/// The router for those that `gate` admits.
pub fn gated(router: Router, gate: Gate<impl TokenReviewer>) -> Router {
    router
        .layer(from_fn_with_state(Arc::new(gate), admit))
        .layer(map_response(close))
}
