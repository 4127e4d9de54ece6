//! Pages from a status: bytes, and a tag over their content.

use std::hash::{BuildHasher as _, DefaultHasher, Hasher as _, RandomState};
use std::io::{self, BufWriter};
use std::sync::Arc;

use axum::Extension;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, VARY};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;

use super::failed;
use super::inventory::Inventory;
use super::objects::Objects;
use super::status::Status;
use crate::report::NodeStatus;

/// Header with the time at which the pass ended that a page shows, in milliseconds since the epoch.
pub const OBSERVED_HEADER: &str = "tetris-observed-ms";

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

/// A page to make.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// The page.
    pub(super) page: Page,
    /// True if it is compressed. Compression happens here, and not in a layer, so that the plain
    /// text of a full node's objects never has to be in memory.
    pub(super) gzip: bool,
    /// Its status.
    pub(super) status: Arc<NodeStatus>,
    /// The key of its tag.
    pub(super) tags: RandomState,
}

/// Makes the page that [`cached`](super::pages::cached) asks for, on a thread that may take its
/// time.
pub(super) async fn render(Extension(job): Extension<Job>) -> Response {
    let observed = HeaderValue::from(job.status.observed_ms);
    let encoded = job
        .gzip
        .then_some([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
    let made = match tokio::task::spawn_blocking(move || job.make()).await {
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
    let mut answer = (headers, tag, observed, made.body).into_response();
    answer.headers_mut().extend(encoded.into_iter().flatten());
    answer
}

struct Made {
    tag: String,
    body: Vec<u8>,
}

impl Job {
    fn make(&self) -> io::Result<Made> {
        let (page, status) = (self.page, &*self.status);
        match page {
            Page::Inventory => {
                let inventory = Inventory::of(status);
                self.document(&inventory, &inventory)
            }
            Page::Objects => {
                let objects = Objects::of(status);
                self.document(&objects, &objects)
            }
            Page::Status | Page::StatusWithModels => {
                let content = || Status::content(status, page == Page::StatusWithModels);
                self.document(&content(), &content().observed(status.observed_ms))
            }
        }
    }

    /// A page whose tag is that of its content. Weak: with another encoding, or observed later,
    /// other bytes have the same tag.
    fn document(&self, content: &impl Serialize, page: &impl Serialize) -> io::Result<Made> {
        let mut hash = HashWriter(self.tags.build_hasher());
        serde_json::to_writer(&mut hash, content)?;
        let body = if self.gzip {
            let mut out = BufWriter::new(GzEncoder::new(Vec::new(), Compression::fast()));
            serde_json::to_writer(&mut out, page)?;
            out.into_inner()?.finish()?
        } else {
            serde_json::to_vec(page)?
        };
        Ok(Made {
            tag: format!("W/\"{:016x}\"", hash.0.finish()),
            body,
        })
    }
}

/// Hashes written bytes without keeping them.
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
