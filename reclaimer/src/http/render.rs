//! Pages from a status: bytes, and a tag over what matters of them.

use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _, RandomState};
use std::io;
use std::sync::Arc;

use axum::Extension;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, VARY};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;

use super::failed;
use super::inventory::Inventory;
use super::objects::Objects;
use super::pages::OBSERVED_HEADER;
use super::status::Status;
use crate::report::NodeStatus;

/// A page that can be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Page {
    /// The status, with models counted.
    Status,
    /// The status, with models listed.
    StatusWithModels,
    /// The inventory of models.
    Inventory,
    /// The inventory of objects.
    Objects,
}

/// A page to make: which, of what, and the key of its tag.
#[derive(Debug, Clone)]
pub(super) struct Job(pub Page, pub Arc<NodeStatus>, pub RandomState);

/// Makes the page that [`cached`](super::pages::cached) asks for, on a thread that may take its time.
pub(super) async fn render(Extension(Job(page, status, tags)): Extension<Job>) -> Response {
    let observed = HeaderValue::from(status.observed_ms);
    let made =
        match tokio::task::spawn_blocking(move || make(page, &status, tags.build_hasher())).await {
            Ok(Ok(made)) => made,
            Ok(Err(err)) => return failed(&err),
            Err(err) => return failed(&err),
        };
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (VARY, HeaderValue::from_static("accept-encoding")),
    ];
    let tag = [(ETAG.as_str(), made.tag)];
    let observed = [(OBSERVED_HEADER, observed)];
    (headers, tag, observed, made.body).into_response()
}

struct Made {
    tag: String,
    body: Vec<u8>,
}

fn make(page: Page, status: &NodeStatus, tag: DefaultHasher) -> serde_json::Result<Made> {
    match page {
        Page::Inventory => {
            let inventory = Inventory::of(status);
            document(&inventory, &inventory, tag)
        }
        Page::Objects => {
            let objects = Objects::of(status);
            document(&objects, &objects, tag)
        }
        Page::Status | Page::StatusWithModels => {
            let content = || Status::content(status, page == Page::StatusWithModels);
            document(&content(), &content().observed(status.observed_ms), tag)
        }
    }
}

/// A page whose tag is that of its content. Weak: with another encoding, or observed later, other bytes have the same tag.
fn document(
    content: &impl Serialize,
    page: &impl Serialize,
    tag: DefaultHasher,
) -> serde_json::Result<Made> {
    let mut hash = HashWriter(tag);
    serde_json::to_writer(&mut hash, content)?;
    Ok(Made {
        tag: format!("W/\"{:016x}\"", hash.0.finish()),
        body: serde_json::to_vec(page)?,
    })
}

/// Hashes what is written to it, so that content is hashed without being kept.
struct HashWriter(DefaultHasher);

impl io::Write for HashWriter {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.write(buf);
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
