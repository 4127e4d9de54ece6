//! A web server with models: a plain site under `/files/`, and a hub as Hugging Face's clients expect it.
//!
//! It answers ranges, counts what it is asked for, and misbehaves on demand.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_RANGE, ETAG, HOST, LOCATION, RANGE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use futures::StreamExt as _;
use serde_json::json;
use sha2::{Digest as _, Sha256};

/// The commit of all repositories.
pub const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// Largest body of a request in bytes.
const MAX_BODY: usize = 32 << 20;
/// Bytes of a body sent at a time.
const PIECE: usize = 64 << 10;

/// A request that the site got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub path: String,
    /// First and last byte of a range.
    pub range: Option<(u64, u64)>,
    pub authorization: Option<String>,
    pub host: String,
}

/// A misbehaviour in place of the right answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// This status, with a header.
    Status(u16, Option<(&'static str, String)>),
    /// The whole file, whatever range was asked for.
    WholeFile,
    /// This many bytes of the body, then the connection's end.
    EndsAfter(usize),
    /// This many bytes of the body, then nothing.
    StopsAfter(usize),
    /// More bytes than were asked for.
    TooMuch,
    /// The right number of other bytes.
    OtherBytes,
    /// The same path elsewhere.
    Redirect(String),
    /// Another entity tag, as of a replaced file.
    Replaced,
}

/// A choice of faults by the request and the number of requests before it.
type Faults = Box<dyn Fn(&Asked, usize) -> Option<Fault> + Send>;

/// A file and its SHA-256 in hexadecimal.
#[derive(Clone)]
struct Content {
    bytes: Bytes,
    digest: String,
}

impl Content {
    fn new(bytes: Bytes) -> Self {
        let digest = Sha256::digest(&bytes);
        let digest = digest
            .iter()
            .fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
        Self { bytes, digest }
    }
}

#[derive(Default)]
struct Inner {
    files: BTreeMap<String, Content>,
    asked: Vec<Asked>,
    faults: Option<Faults>,
    /// Address to redirect requests for files of repositories to.
    elsewhere: Option<String>,
    /// The token that the hub wants.
    token: Option<String>,
    sent: u64,
}

/// The server. It ends with its runtime's thread, when the test does.
#[derive(Clone)]
pub struct ModelSite {
    inner: Arc<Mutex<Inner>>,
    address: SocketAddr,
}

impl Default for ModelSite {
    fn default() -> Self {
        Self::new()
    }
}

impl ModelSite {
    pub fn new() -> Self {
        let inner = Arc::<Mutex<Inner>>::default();
        let (sender, address) = std::sync::mpsc::channel();
        let state = Arc::clone(&inner);
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                sender.send(listener.local_addr().unwrap()).unwrap();
                let router = Router::new().fallback(answer).with_state(state);
                axum::serve(listener, router).await.unwrap();
            });
        });
        Self {
            inner,
            address: address.recv().unwrap(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The site's address, without a slash at its end.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Address of a file of the plain site.
    pub fn file_url(&self, path: &str) -> String {
        format!("{}/files/{path}", self.url())
    }

    /// Puts a file on the plain site.
    pub fn put(&self, path: &str, bytes: impl Into<Bytes>) {
        let path = format!("/files/{path}");
        self.inner().files.insert(path, Content::new(bytes.into()));
    }

    /// Puts a file at a path of the server, e.g. of a registry.
    pub fn put_at(&self, path: &str, bytes: impl Into<Bytes>) {
        let content = Content::new(bytes.into());
        self.inner().files.insert(path.to_owned(), content);
    }

    /// Puts a file into a repository of the hub.
    pub fn put_in_repo(&self, repo: &str, path: &str, bytes: impl Into<Bytes>) {
        let path = format!("/{repo}/resolve/{COMMIT}/{path}");
        self.inner().files.insert(path, Content::new(bytes.into()));
    }

    /// Misbehaves by `faults` from now on.
    pub fn misbehave(&self, faults: impl Fn(&Asked, usize) -> Option<Fault> + Send + 'static) {
        self.inner().faults = Some(Box::new(faults));
    }

    /// Behaves again.
    pub fn behave(&self) {
        self.inner().faults = None;
    }

    /// Redirects to files of repositories there, as the hub does to its stores.
    pub fn redirect_to(&self, elsewhere: &Self) {
        self.inner().elsewhere = Some(elsewhere.url());
        let files = self.inner().files.clone();
        elsewhere.inner().files.extend(files);
    }

    /// Wants this token for everything of the hub.
    pub fn require_token(&self, token: &str) {
        self.inner().token = Some(token.to_owned());
    }

    /// The requests since the last call.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.inner().asked)
    }

    /// Bytes of bodies of files since the last call.
    pub fn take_sent(&self) -> u64 {
        std::mem::take(&mut self.inner().sent)
    }
}

async fn answer(State(state): State<Arc<Mutex<Inner>>>, request: Request) -> Response {
    let asked = asked(&request);
    let is_head = request.method() == "HEAD";
    let body = axum::body::to_bytes(request.into_body(), MAX_BODY).await;
    let body = body.unwrap_or_default();
    let mut inner = state.lock().unwrap_or_else(PoisonError::into_inner);
    let number = inner.asked.len();
    inner.asked.push(asked.clone());
    let fault = inner
        .faults
        .as_ref()
        .and_then(|fault| fault(&asked, number));
    match fault {
        Some(Fault::Status(status, header)) => {
            let mut answer = Response::builder().status(status);
            if let Some((name, value)) = header {
                answer = answer.header(name, value);
            }
            return answer.body(Body::from("<html>no</html>")).unwrap();
        }
        Some(Fault::Redirect(to)) => return redirect(&format!("{to}{}", asked.path)),
        _ => {}
    }
    let of_hub = !asked.path.starts_with("/files/");
    let expected = inner.token.as_ref().map(|token| format!("Bearer {token}"));
    if of_hub && expected.is_some() && asked.authorization != expected {
        return status(StatusCode::UNAUTHORIZED);
    }
    if let Some(rest) = asked.path.strip_prefix("/api/models/") {
        if rest.contains("/preupload/") {
            return preupload(&body);
        }
        if let Some((repo, _)) = rest.split_once("/commit/") {
            return commit(&mut inner, repo, &asked.host, &body);
        }
        return match rest.split_once("/tree/") {
            Some((repo, _)) => tree(&inner, repo),
            None => listing(&inner, rest.split("/revision/").next().unwrap()),
        };
    }
    let path = asked
        .path
        .replace("/resolve/main/", &format!("/resolve/{COMMIT}/"));
    let Some(content) = inner.files.get(&path).cloned() else {
        return status(StatusCode::NOT_FOUND);
    };
    if let Some(elsewhere) = inner.elsewhere.as_ref().filter(|_| of_hub) {
        let mut answer = redirect(&format!("{elsewhere}{path}"));
        named(answer.headers_mut(), &content);
        return answer;
    }
    let (answer, sent) = file(&asked, &content, fault.as_ref(), of_hub);
    if !is_head {
        inner.sent += sent;
    }
    answer
}

fn asked(request: &Request) -> Asked {
    let text = |name| {
        let value = request.headers().get(name)?.to_str().ok()?;
        Some(value.to_owned())
    };
    let range = text(RANGE).and_then(|range| {
        let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
        Some((first.parse().ok()?, last.parse().unwrap_or(u64::MAX)))
    });
    Asked {
        path: request.uri().path().to_owned(),
        range,
        authorization: text(AUTHORIZATION),
        host: text(HOST).unwrap_or_default(),
    }
}

fn status(status: StatusCode) -> Response {
    Response::builder()
        .status(status)
        .body(Body::empty())
        .unwrap()
}

fn redirect(to: &str) -> Response {
    let answer = Response::builder().status(StatusCode::FOUND);
    answer.header(LOCATION, to).body(Body::empty()).unwrap()
}

/// Headers with which the hub describes a file.
fn named(headers: &mut HeaderMap, content: &Content) {
    let tag = format!("\"{}\"", content.digest);
    headers.insert("x-linked-etag", tag.parse().unwrap());
    headers.insert("x-linked-size", content.bytes.len().into());
    headers.insert("x-repo-commit", COMMIT.parse().unwrap());
}

fn of_repo<'i>(inner: &'i Inner, repo: &str) -> impl Iterator<Item = (&'i str, &'i Content)> {
    let folder = format!("/{repo}/resolve/{COMMIT}/");
    let files = inner.files.iter();
    files.filter_map(move |(path, content)| Some((path.strip_prefix(&folder)?, content)))
}

/// A repository's files, as the hub lists them: large ones with their digests.
fn listing(inner: &Inner, repo: &str) -> Response {
    let siblings: Vec<_> = of_repo(inner, repo)
        .map(|(path, content)| {
            let (digest, size) = (&content.digest, content.bytes.len());
            let mut file = json!({
                "rfilename": path,
                "size": size,
                "blobId": digest.get(..40),
            });
            if path.ends_with(".safetensors") {
                file["lfs"] = json!({ "sha256": digest, "size": size, "pointerSize": 134 });
            }
            file
        })
        .collect();
    if siblings.is_empty() {
        return status(StatusCode::NOT_FOUND);
    }
    let info = json!({ "id": repo, "sha": COMMIT, "siblings": siblings });
    Response::new(Body::from(info.to_string()))
}

/// The way in which each file of a commit is to be sent: within it.
fn preupload(body: &[u8]) -> Response {
    let asked: serde_json::Value = serde_json::from_slice(body).unwrap();
    let files = asked["files"].as_array().unwrap();
    let modes: Vec<_> = files
        .iter()
        .map(|file| json!({ "path": file["path"], "uploadMode": "regular", "shouldIgnore": false }))
        .collect();
    Response::new(Body::from(json!({ "files": modes }).to_string()))
}

/// Adds the files of a commit, which is a header and a line for each of them.
fn commit(inner: &mut Inner, repo: &str, host: &str, body: &[u8]) -> Response {
    let lines = body
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    let mut lines = lines.map(|line| serde_json::from_slice::<serde_json::Value>(line).unwrap());
    let header = lines.next().unwrap();
    let parent = &header["value"]["parentCommit"];
    if header["key"] != "header" || !(parent.is_null() || parent == COMMIT) {
        return status(StatusCode::PRECONDITION_FAILED);
    }
    for line in lines {
        let value = &line["value"];
        assert_eq!(
            (&line["key"], &value["encoding"]),
            (&"file".into(), &"base64".into())
        );
        let path = format!(
            "/{repo}/resolve/{COMMIT}/{}",
            value["path"].as_str().unwrap()
        );
        let bytes = BASE64_STANDARD
            .decode(value["content"].as_str().unwrap())
            .unwrap();
        inner.files.insert(path, Content::new(bytes.into()));
    }
    let url = format!("http://{host}/{repo}/commit/{COMMIT}");
    let done = json!({ "success": true, "commitUrl": url, "commitOid": COMMIT });
    Response::new(Body::from(done.to_string()))
}

/// A repository's files, as the hub's own client asks for them.
fn tree(inner: &Inner, repo: &str) -> Response {
    let entries: Vec<_> = of_repo(inner, repo)
        .map(|(path, content)| {
            let (digest, size) = (&content.digest, content.bytes.len());
            let mut file = json!({
                "type": "file",
                "path": path,
                "size": size,
                "oid": digest.get(..40),
            });
            if path.ends_with(".safetensors") {
                file["lfs"] = json!({ "oid": digest, "size": size, "pointerSize": 134 });
            }
            file
        })
        .collect();
    Response::new(Body::from(serde_json::Value::from(entries).to_string()))
}

/// The answer with a file or a part of it, and the number of its bytes.
fn file(asked: &Asked, content: &Content, fault: Option<&Fault>, of_hub: bool) -> (Response, u64) {
    let bytes = &content.bytes;
    let total = bytes.len() as u64;
    let range = asked
        .range
        .filter(|_| !matches!(fault, Some(Fault::WholeFile)));
    let mut answer = Response::builder();
    let tag = match fault {
        Some(Fault::Replaced) => "\"replaced\"".to_owned(),
        _ => format!("\"{}\"", content.digest),
    };
    answer = answer.header(ETAG, tag).header("accept-ranges", "bytes");
    let (first, end) = match range {
        Some((first, _)) if first >= total => {
            return (status(StatusCode::RANGE_NOT_SATISFIABLE), 0);
        }
        Some((first, last)) => {
            let last = last.min(total - 1);
            let range = format!("bytes {first}-{last}/{total}");
            answer = answer.status(StatusCode::PARTIAL_CONTENT);
            answer = answer.header(CONTENT_RANGE, range);
            (first, last + 1)
        }
        None => (0, total),
    };
    let mut part = bytes.slice(first as usize..end as usize);
    match fault {
        Some(Fault::OtherBytes) => {
            part = part.iter().map(|byte| byte ^ 1).collect::<Vec<_>>().into();
        }
        Some(Fault::TooMuch) => part = [&part[..], &[7; 1000]].concat().into(),
        _ => answer = answer.header(CONTENT_LENGTH, part.len()),
    }
    let (sent, ends) = match fault {
        Some(Fault::EndsAfter(sent)) => (*sent, true),
        Some(Fault::StopsAfter(sent)) => (*sent, false),
        _ => (usize::MAX, true),
    };
    let is_cut = part.len() > sent;
    let sent = part.len().min(sent);
    let pieces: Vec<Bytes> = part
        .slice(..sent)
        .chunks(PIECE)
        .map(Bytes::copy_from_slice)
        .collect();
    let body = futures::stream::iter(pieces).map(Ok::<_, std::io::Error>);
    let rest = futures::stream::once(async move {
        if is_cut && !ends {
            tokio::time::sleep(Duration::from_hours(1)).await;
        }
        if is_cut {
            Err(std::io::Error::other("cut"))
        } else {
            Ok(Bytes::new())
        }
    });
    let mut answer = answer.body(Body::from_stream(body.chain(rest))).unwrap();
    if of_hub {
        named(answer.headers_mut(), content);
    }
    (answer, sent as u64)
}
