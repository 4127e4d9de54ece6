//! A server of the Open Inference Protocol v2, and of OpenAI's completions, with known latency and memory: it sleeps, allocates
//! memory and maps objects of a store as its options say. Tests of the profiler measure it.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use clap::Parser;
use serde_json::{Value, json};
use tetris_store_layout::{Access, Mapping, Store};
use tokio::sync::Semaphore;

#[derive(Parser)]
struct Args {
    #[arg(long)]
    port: u16,
    /// Appends a line per start: configuration and port.
    #[arg(long)]
    starts: Option<PathBuf>,
    /// Latency of each request, in milliseconds.
    #[arg(long, default_value_t = 1)]
    fixed_ms: u64,
    /// Additional latency per request of the maximum batch, in milliseconds.
    #[arg(long, default_value_t = 0)]
    each_ms: u64,
    /// Maximum number of concurrent requests, regardless of the configuration.
    #[arg(long, default_value_t = 1_000)]
    lanes: usize,
    /// Memory in MiB, and additional memory per thread.
    #[arg(long, default_value_t = 0)]
    own_mib: usize,
    #[arg(long, default_value_t = 0)]
    thread_mib: usize,
    /// Store of which the server maps all objects.
    #[arg(long)]
    store: Option<PathBuf>,
    /// Concurrency at which the server exits with status 3 instead of serving.
    #[arg(long, default_value_t = 0)]
    exit_at: u32,
    /// Never becomes ready.
    #[arg(long)]
    never_ready: bool,
    /// Refuses every request, or all after the first 16.
    #[arg(long)]
    refuse: bool,
    #[arg(long)]
    refuse_later: bool,
    /// Time of a batch on a GPU that the statistics tell, in milliseconds.
    #[arg(long)]
    gpu_ms: Option<u64>,
    /// Metadata to answer with.
    #[arg(long)]
    metadata: Option<String>,
}

struct Server {
    args: Args,
    batch: u64,
    lanes: Semaphore,
    answered: std::sync::atomic::AtomicUsize,
    _own: Vec<u8>,
    _mapped: Vec<Mapping>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = Args::parse();
    let [batch, concurrency, cpu_millis] = ["BATCH", "CONCURRENCY", "CPU_MILLIS"].map(number);
    note_start(&args, &format!("c{cpu_millis}-b{batch}-p{concurrency}"))?;
    if u64::from(args.exit_at) == concurrency {
        bail!("no use for {concurrency} threads");
    }
    let memory = vec![1_u8; (args.own_mib + args.thread_mib * concurrency as usize) << 20];
    let server = Server {
        batch,
        lanes: Semaphore::new(args.lanes),
        answered: 0.into(),
        _own: memory,
        _mapped: map_all(args.store.as_ref())?,
        args,
    };
    let address = (Ipv4Addr::LOCALHOST, server.args.port);
    let listener = tokio::net::TcpListener::bind(address).await?;
    let router = Router::new()
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/m/ready", get(ready))
        .route("/v2/models/m", get(metadata))
        .route("/v2/models/m/infer", post(infer))
        .route("/v2/models/m/stats", get(statistics))
        .route("/v1/models", get(ready))
        .route("/v1/completions", post(complete))
        .with_state(Arc::new(server));
    Ok(axum::serve(listener, router).await?)
}

fn note_start(args: &Args, configuration: &str) -> Result<()> {
    use std::io::Write as _;
    if let Some(path) = &args.starts {
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)?;
        writeln!(file, "{configuration} {}", std::process::id())?;
    }
    Ok(())
}

fn number(name: &str) -> u64 {
    let value = std::env::var(format!("TETRIS_{name}"));
    value.ok().and_then(|value| value.parse().ok()).unwrap_or(0)
}

fn map_all(path: Option<&PathBuf>) -> Result<Vec<Mapping>> {
    let Some(path) = path else {
        return Ok(Vec::new());
    };
    let store = Store::open(path)?;
    let objects = store.objects()?.objects.into_iter();
    objects
        .filter(|entry| entry.object.len > 10)
        .map(|entry| {
            store
                .map(&entry.object, Access::ReadOnly)?
                .context("the object has gone")
        })
        .collect()
}

async fn ready(State(server): State<Arc<Server>>) -> StatusCode {
    if server.args.never_ready {
        StatusCode::SERVICE_UNAVAILABLE
    } else {
        StatusCode::OK
    }
}

async fn metadata(State(server): State<Arc<Server>>) -> Result<Json<Value>, StatusCode> {
    let Some(text) = &server.args.metadata else {
        let input = json!({"name": "x", "datatype": "FP32", "shape": [-1, 4]});
        return Ok(Json(
            json!({"name": "m", "platform": "test", "inputs": [input], "outputs": []}),
        ));
    };
    let parsed = serde_json::from_str(text);
    parsed.map(Json).map_err(|_| StatusCode::IM_A_TEAPOT)
}

/// Statistics of Triton's extension: every request is its own batch.
async fn statistics(State(server): State<Arc<Server>>) -> Result<Json<Value>, StatusCode> {
    let millis = server.args.gpu_ms.ok_or(StatusCode::NOT_FOUND)?;
    let count = server.answered.load(std::sync::atomic::Ordering::Relaxed);
    let nanos = count as u64 * millis * 1_000_000;
    let computed = json!({"count": count, "ns": nanos});
    let batch = json!({"batch_size": 1, "compute_infer": computed});
    Ok(Json(
        json!({"model_stats": [{"name": "m", "version": "1", "batch_stats": [batch]}]}),
    ))
}

async fn infer(
    State(server): State<Arc<Server>>,
    Json(request): Json<Value>,
) -> (StatusCode, Json<Value>) {
    use std::sync::atomic::Ordering;
    let first = server.answered.fetch_add(1, Ordering::Relaxed) < 16;
    if server.args.refuse
        || (server.args.refuse_later && !first)
        || request["inputs"][0]["shape"] != json!([1, 4])
    {
        let error = json!({"error": "refused on purpose"});
        return (StatusCode::BAD_REQUEST, Json(error));
    }
    server.compute().await;
    let output = json!({"name": "y", "datatype": "FP32", "shape": [1], "data": [1.0]});
    (
        StatusCode::OK,
        Json(json!({"model_name": "m", "outputs": [output]})),
    )
}

/// Completes a text, of as many tokens as asked for.
async fn complete(
    State(server): State<Arc<Server>>,
    Json(request): Json<Value>,
) -> (StatusCode, Json<Value>) {
    let words = request["prompt"]
        .as_str()
        .map_or(0, |text| text.split(' ').count());
    if request["model"] != "m" || request["max_tokens"] != 7 || words != 5 {
        let error = json!({"error": {"message": "refused on purpose"}});
        return (StatusCode::BAD_REQUEST, Json(error));
    }
    server.compute().await;
    (
        StatusCode::OK,
        Json(json!({"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]})),
    )
}

impl Server {
    /// Takes the time of a request.
    async fn compute(&self) {
        let _lane = self.lanes.acquire().await;
        let millis = self.args.fixed_ms + self.args.each_ms * self.batch;
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}
