//! Measurement of one configuration: a start under load without a memory limit, then starts under
//! limits until one is enough.

mod error;
mod limit;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::time::sleep;

pub use error::MeasureError;
use limit::{limits, unverified_limit};

use crate::cgroup::{Hierarchy, Limits};
use crate::cpus::CpuList;
use crate::gpu::{Computed, MeasurementOnGpu, ProfileGpu};
use crate::instance::{Confinement, Instance, InstanceError, MemoryProbe};
use crate::load::{Amount, LoadError, Seen, drive};
use crate::measurement::Measurement;
use crate::oip::{OipClient, OipError, Protocol, RequestShape, bodies, completions};
use crate::setting::Setting;
use crate::shared::{MappedObjects, SharedPart, SharedStore};

/// Interval between samples of an instance's memory.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Maximum number of starts until one finds all its tensors in the store.
const COLD_STARTS: u32 = 3;
/// Maximum ratio of the median latency under a memory limit to that without: under a tighter limit
/// the instance would read its libraries from disk again and again.
const SLOWER_AT_MOST: u64 = 2;
/// Maximum number of requests under a memory limit, and maximum time for them.
const VERIFY_REQUESTS: usize = 200;
const VERIFY_TIME: Duration = Duration::from_secs(5);

/// Settings shared by all configurations.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) command: Vec<String>,
    pub(crate) model: String,
    pub(crate) protocol: Protocol,
    pub(crate) bodies: Arc<Vec<Vec<u8>>>,
    pub(crate) store: Option<SharedStore>,
    pub(crate) hierarchy: Option<Hierarchy>,
    pub(crate) cpus: CpuList,
    pub(crate) amount: Amount,
    /// GPU of the instances, if they use one.
    pub(crate) gpu: Option<ProfileGpu>,
    pub(crate) ready_within: Duration,
}

/// Source of the requests.
#[derive(Debug)]
pub(crate) enum RequestSource {
    /// Requests made for the model, and for completions the number of new tokens.
    Made(RequestShape, u32),
    /// One given request.
    Given(Vec<u8>),
}

/// Results of one start.
struct Run {
    seen: Seen,
    /// Mean time of a batch on the GPU, in microseconds.
    inference_micros: Option<u64>,
    peak_bytes: u64,
    oom_kills: u64,
    mapped: MappedObjects,
}

impl Bench {
    /// Starts the command once without limits, makes the requests and sends each once. Afterwards
    /// the model is in the store and the command's files are in the page cache, so that no measured
    /// instance is charged for them.
    pub(crate) async fn first_start(
        &mut self,
        setting: Setting,
        source: &RequestSource,
    ) -> Result<(), MeasureError> {
        let mut instance = Instance::start(&self.command, setting, &Confinement::Free).await?;
        let client = self.client(&instance)?;
        instance.ready(&client, self.ready_within).await?;
        let asked = async {
            let made = match source {
                RequestSource::Given(body) => vec![body.clone()],
                RequestSource::Made(shape, tokens) => match client.protocol() {
                    Protocol::Inference => bodies(&client.metadata().await?, *shape)?,
                    Protocol::OpenAi => completions(&self.model, *shape, *tokens),
                },
            };
            for body in &made {
                client.checked_infer(body).await?;
            }
            Ok(made)
        };
        let made = alive(&mut instance, "answering the first requests", asked).await?;
        self.bodies = Arc::new(made);
        Ok(())
    }

    /// Measures one configuration and reports its progress to `says`.
    pub(crate) async fn measure(
        &self,
        setting: Setting,
        says: &mut (dyn FnMut(String) + Send),
    ) -> Result<(Measurement, SharedPart), MeasureError> {
        let run = self.warm_run(setting).await?;
        let (own_bytes, verified) = if self.hierarchy.is_some() {
            (self.least_limit(setting, &run, says).await?, true)
        } else {
            (unverified_limit(run.peak_bytes), false)
        };
        let measurement = Measurement {
            setting,
            own_bytes,
            verified,
            latency: run.seen.latency,
            requests: run.seen.requests,
            errors: run.seen.errors,
            requests_per_second: run.seen.requests_per_second,
            on_gpu: self.gpu.as_ref().map(|gpu| MeasurementOnGpu {
                gpu: gpu.clone(),
                inference_micros: run.inference_micros,
            }),
        };
        Ok((measurement, run.mapped.shared))
    }

    /// Runs the configuration until a run finds all its tensors in the store.
    async fn warm_run(&self, setting: Setting) -> Result<Run, MeasureError> {
        for _ in 0..COLD_STARTS {
            let run = self.run(setting, None, self.amount).await?;
            if !run.mapped.published_since || self.hierarchy.is_none() {
                return Ok(run);
            }
        }
        let store = self
            .store
            .as_ref()
            .map_or_else(PathBuf::new, SharedStore::root);
        Err(MeasureError::Cold {
            starts: COLD_STARTS,
            store: store.display().to_string(),
        })
    }

    /// Returns the lowest tried limit under which the instance passes.
    async fn least_limit(
        &self,
        setting: Setting,
        free: &Run,
        says: &mut (dyn FnMut(String) + Send),
    ) -> Result<u64, MeasureError> {
        let amount = Amount {
            requests: VERIFY_REQUESTS.min(self.amount.requests),
            time: VERIFY_TIME.min(self.amount.time),
            ..self.amount
        };
        let (mut tried, mut why) = (0, String::new());
        for limit in limits(free.peak_bytes) {
            says(format!("under a memory limit of {} MiB", limit >> 20));
            why = match self.run(setting, Some(limit), amount).await {
                Ok(run) => match failed_under_limit(&run, &free.seen) {
                    None => return Ok(limit),
                    Some(why) => why,
                },
                Err(error) if is_due_to_limit(&error) => error.to_string(),
                Err(error) => return Err(error),
            };
            tried = limit;
        }
        Err(MeasureError::NoLimit {
            needed: free.peak_bytes,
            tried,
            why,
        })
    }

    async fn run(
        &self,
        setting: Setting,
        memory_bytes: Option<u64>,
        amount: Amount,
    ) -> Result<Run, MeasureError> {
        let place = self.place(setting, memory_bytes)?;
        let start = SystemTime::now();
        let mut instance = Instance::start(&self.command, setting, &place).await?;
        let probe = instance.probe();
        let mut peak_bytes = 0;
        let (seen, inference_micros) = tokio::select! {
            seen = self.load(&mut instance, setting, amount) => seen?,
            never = watch(&probe, &mut peak_bytes) => match never {},
        };
        let mapped = match &self.store {
            Some(store) => store.mapped_by(&instance.processes(), start)?,
            None => MappedObjects::default(),
        };
        Ok(Run {
            seen,
            inference_micros,
            peak_bytes: peak_bytes.max(probe.own_bytes()),
            oom_kills: probe.oom_kills(),
            mapped,
        })
    }

    async fn load(
        &self,
        instance: &mut Instance,
        setting: Setting,
        amount: Amount,
    ) -> Result<(Seen, Option<u64>), MeasureError> {
        let client = self.client(instance)?;
        instance.ready(&client, self.ready_within).await?;
        let load = async {
            let before = self.computed(&client).await;
            let seen = drive(&client, &self.bodies, setting.clients(), amount).await?;
            let after = self.computed(&client).await;
            let micros = after.and_then(|after| after.micros_since(before.unwrap_or_default()));
            Ok((seen, micros))
        };
        alive(instance, "under load", load).await
    }

    /// Returns the batches so far, if the instances use a GPU and tell.
    async fn computed(&self, client: &OipClient) -> Option<Computed> {
        self.gpu.as_ref()?;
        let answer = client.statistics().await.ok()?;
        Computed::read(&answer)
    }

    fn client(&self, instance: &Instance) -> Result<OipClient, OipError> {
        OipClient::new(
            instance.port(),
            &self.model,
            self.protocol,
            self.amount.patience,
        )
    }

    fn place(
        &self,
        setting: Setting,
        memory_bytes: Option<u64>,
    ) -> Result<Confinement, InstanceError> {
        let cpus = self.cpus.take(setting.whole_cpus())?;
        Ok(match &self.hierarchy {
            None => Confinement::Bound(cpus),
            Some(hierarchy) => Confinement::Cgroup(
                hierarchy.clone(),
                Limits {
                    cpu_millis: setting.cpu_millis,
                    cpus,
                    memory_bytes,
                },
            ),
        })
    }
}

/// Runs `work` with an instance; fails if the instance ends first.
async fn alive<T>(
    instance: &mut Instance,
    doing: &'static str,
    work: impl Future<Output = Result<T, MeasureError>>,
) -> Result<T, MeasureError> {
    tokio::select! {
        done = work => done,
        error = instance.ended(doing) => Err(error.into()),
    }
}

async fn watch(probe: &MemoryProbe, peak_bytes: &mut u64) -> std::convert::Infallible {
    loop {
        *peak_bytes = probe.own_bytes().max(*peak_bytes);
        sleep(LOOK_EVERY).await;
    }
}

/// Returns the reason a run failed under a limit although all requests were answered.
fn failed_under_limit(run: &Run, free: &Seen) -> Option<String> {
    let (slow, fast) = (run.seen.latency.p50, free.latency.p50);
    if run.oom_kills > 0 {
        return Some(format!(
            "the kernel killed {} processes for lack of memory",
            run.oom_kills
        ));
    }
    (slow > fast.saturating_mul(SLOWER_AT_MOST))
        .then(|| format!("the median latency was {slow} us, without a limit {fast} us"))
}

/// Returns true if more memory may help.
const fn is_due_to_limit(error: &MeasureError) -> bool {
    matches!(
        error,
        MeasureError::Load(LoadError::Failing { .. } | LoadError::Slow { .. })
            | MeasureError::Instance(InstanceError::Exited { .. } | InstanceError::NotReady { .. })
    )
}
