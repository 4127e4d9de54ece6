//! Reference instances (`scaler/instance`) of unequal size: one model, and CPU quotas.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::task::JoinSet;

use crate::client::{Question, ask, closed, connect};
use crate::proxies::free_address;
use crate::quota::Quotas;
use crate::target::Target;

/// CPUs, batch size and number of batches at a time of each instance.
const SIZES: [(f64, usize, usize); 4] = [(0.1, 1, 1), (0.2, 1, 1), (0.4, 2, 1), (0.8, 4, 2)];
/// Longest wait for a batch to fill; the instance's own where a full batch takes longer.
const BATCH_WAIT_MS: u64 = 10;
/// Time for which the rates of all instances are measured, and before that the time for which they are busy.
const MEASURED: Duration = Duration::from_secs(10);
const WARM: Duration = Duration::from_secs(2);

/// An instance with its size.
pub struct Instance {
    pub cpus: f64,
    /// Requests per second, measured with as many requests at a time as it has slots.
    pub rate: f64,
    pub target: Target,
    child: Child,
}

impl Drop for Instance {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Running instances. They end when this is dropped.
pub struct Instances {
    /// Before the quotas: a cgroup with processes cannot be removed.
    pub all: Vec<Instance>,
    _quotas: Quotas,
    _model: tempfile::TempDir,
}

impl Instances {
    /// Starts the instances with the weights of all-MiniLM-L6-v2, one after the other, and measures the
    /// rates of all at once.
    pub async fn start(python: &str, weights: &Path) -> Result<Self> {
        let quotas = Quotas::new()?;
        let model = folder(weights)?;
        let mut all = Vec::new();
        for (cpus, batch, concurrency) in SIZES {
            let address = free_address()?;
            let child = process(python, model.path(), address, batch, concurrency)?;
            let target = Target {
                address,
                batch,
                concurrency,
                latency_ms: 1,
                batch_wait_ms: if batch > 1 { BATCH_WAIT_MS } else { 0 },
                weight: 1,
            };
            let mut instance = Instance {
                cpus,
                rate: 0.0,
                target,
                child,
            };
            instance.ready().await?;
            // After the start, most of which is imports.
            quotas.limit(instance.child.id(), cpus)?;
            all.push(instance);
        }
        // All at once: they share caches and memory, and each alone is faster.
        let mut measured = JoinSet::new();
        for (number, entry) in all.iter().enumerate() {
            let (address, count) = (entry.target.address, entry.target.slots());
            measured.spawn(async move {
                closed(address, count, WARM, Question::Tokens).await?;
                let answers = closed(address, count, MEASURED, Question::Tokens).await?;
                anyhow::Ok((number, answers))
            });
        }
        while let Some(ended) = measured.join_next().await {
            let (number, answers) = ended??;
            let Some(one) = all.get_mut(number) else {
                continue;
            };
            one.rate = answers as f64 / MEASURED.as_secs_f64();
            let latency_ms = one.target.slots() as f64 / one.rate * 1e3;
            one.target.latency_ms = latency_ms.ceil() as u64;
        }
        let fastest = all.iter().map(|entry| entry.rate).fold(0.0, f64::max);
        for entry in &mut all {
            entry.target.weight = ((entry.rate / fastest * 100.0) as usize).max(1);
        }
        Ok(Self {
            all,
            _quotas: quotas,
            _model: model,
        })
    }

    pub fn targets(&self) -> Vec<Target> {
        self.all.iter().map(|entry| entry.target).collect()
    }

    /// Requests per second of all instances.
    pub fn rate(&self) -> f64 {
        self.all.iter().map(|entry| entry.rate).sum()
    }

    /// The objective: twice the latency of the slowest instance, as a function has it that allows its
    /// configuration with a batch that waits.
    pub fn objective(&self) -> Duration {
        let slowest = self.all.iter().map(|entry| entry.target.latency_ms).max();
        Duration::from_millis(2 * slowest.unwrap_or(0))
    }
}

impl Instance {
    async fn ready(&mut self) -> Result<()> {
        loop {
            let ended = self.child.try_wait()?;
            ensure!(ended.is_none(), "an instance ended at its start: {ended:?}");
            if let Ok(mut connection) = connect(self.target.address).await
                && let Ok(status) = ask(&mut connection, Question::Tokens).await
                && status.is_success()
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn process(
    python: &str,
    model: &Path,
    address: SocketAddr,
    batch: usize,
    concurrency: usize,
) -> Result<Child> {
    let mut command = Command::new(python);
    command
        .args(["-m", "tetris_instance", "--model-name", "m", "--model-path"])
        .arg(model)
        // One thread for each run: the quotas are below one CPU for each.
        .args(["--cpus", &concurrency.to_string()])
        .args(["--batch", &batch.to_string()])
        .args(["--concurrency", &concurrency.to_string()])
        .args(["--batch-wait-millis", &BATCH_WAIT_MS.to_string()])
        .args(["--port", &address.port().to_string()])
        .args(["--log-level", "error"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    child.with_context(|| format!("cannot start {python}"))
}

/// A model folder of all-MiniLM-L6-v2 with these weights.
fn folder(weights: &Path) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let config = json!({
        "architectures": ["BertModel"], "model_type": "bert", "vocab_size": 30522, "hidden_size": 384,
        "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536,
    });
    fs::write(folder.path().join("config.json"), config.to_string())?;
    let weights = weights
        .canonicalize()
        .with_context(|| format!("no weights at {}", weights.display()))?;
    symlink(weights, folder.path().join("model.safetensors"))?;
    Ok(folder)
}
