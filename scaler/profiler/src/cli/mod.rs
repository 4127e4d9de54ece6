//! The command `profile`.

mod args;
mod output;
mod progress;
mod served;

use std::time::Duration;

use anyhow::{Context, Error, Result, bail};

pub use args::{Format, ProfileArgs};
use progress::Progress;
use served::ServedState;
pub use served::{PROFILE_PATH, RunState};

use crate::database::ProfileDatabase;
use crate::gpu::ProfileGpu;
use crate::model_profile::{is_resource_name, resource_name};
use crate::oip::Protocol;
use crate::plan::SloBound;
use crate::session::{ProfileRequest, SessionOutcome, profile, stored};
use crate::setting::grid;

/// Maximum size of a request file, in bytes.
const MAX_REQUEST_BYTES: u64 = 64 << 20;

impl ProfileArgs {
    /// Runs the command. It starts a runtime, so a caller must not be inside one.
    ///
    /// # Errors
    ///
    /// Fails if an argument is invalid, or if a configuration could not be measured.
    pub fn run(&self) -> Result<()> {
        if self.list {
            return output::list(&ProfileDatabase::open(&self.database_path()?)?.profiles()?);
        }
        let name = self.profile_name()?;
        if self.from_database {
            let path = self.database_path()?;
            let recorded = stored(&name, &ProfileDatabase::open(&path)?)?;
            let profile = recorded.with_context(|| {
                format!(
                    "the database `{}` has no profile `{name}`; list its profiles with --list",
                    path.display()
                )
            })?;
            return output::write(self, &profile);
        }
        let request = self.request(name)?;
        let database = ProfileDatabase::create(&self.database_path()?)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let outcome = runtime.block_on(self.measure(&request, &database))?;
        // Tasks that read from pipes may wait for processes that outlive their instance.
        runtime.shutdown_timeout(Duration::from_secs(1));
        output::write(self, &outcome)?;
        match outcome.failures() {
            0 => Ok(()),
            failures => bail!(
                "{failures} of {} configurations could not be measured, and the profile has the others; run the same command again to retry them",
                outcome.fates.len()
            ),
        }
    }

    fn profile_name(&self) -> Result<String> {
        let model = self.model.as_deref().unwrap_or_default();
        let Some(name) = self.name.clone().or_else(|| resource_name(model)) else {
            bail!(
                "cannot derive a profile name from the model name `{model}`; give one with --name"
            )
        };
        if !is_resource_name(&name) {
            bail!(
                "--name `{name}` is not a valid resource name; expected lowercase letters, digits, `-` and `.`"
            )
        }
        Ok(name)
    }

    fn request(&self, name: String) -> Result<ProfileRequest> {
        let Some(model) = self.model.clone() else {
            bail!("--model is required: give the model's name in the inference protocol")
        };
        if self.command.is_empty() {
            bail!(
                "no command of an instance; give one after `--`, such as `-- tetris-instance --port {{port}}`"
            )
        }
        Ok(ProfileRequest {
            name,
            model,
            protocol: self.protocol,
            tokens: self.tokens,
            command: self.command.clone(),
            settings: grid(&self.cpus, &self.batch, &self.concurrency)?,
            bound: self.slo_millis.map(|millis| SloBound {
                slo_micros: u64::from(millis) * 1_000,
                percentile: self.slo_percentile,
            }),
            requests: self.requests as usize,
            time: Duration::from_secs(self.seconds.into()),
            budget: self
                .budget_seconds
                .map(|seconds| Duration::from_secs(seconds.into())),
            ready_within: Duration::from_secs(self.ready_seconds.into()),
            request_timeout: Duration::from_secs(self.request_seconds.into()),
            store: self.store.clone(),
            cgroup_parent: self.cgroup_parent.clone(),
            body: self.body()?,
            seed: self.seed,
            dynamic_size: self.dynamic_size,
            fresh: self.fresh,
            gpu: self.gpu_type.map(|kind| ProfileGpu {
                kind,
                own_bytes: self.gpu_own_bytes.unwrap_or(0),
                bytes_per_second: self.gpu_bytes_per_second,
            }),
        })
    }

    /// Reads and checks the request of --request, as a server's answer to a malformed one would be
    /// hard to understand.
    fn body(&self) -> Result<Option<Vec<u8>>> {
        let Some(path) = &self.request else {
            return Ok(None);
        };
        let shown = path.display();
        let length = std::fs::metadata(path)
            .with_context(|| format!("cannot read `{shown}`"))?
            .len();
        if length > MAX_REQUEST_BYTES {
            bail!("`{shown}` has {length} bytes, expected at most {MAX_REQUEST_BYTES}")
        }
        let body = std::fs::read(path).with_context(|| format!("cannot read `{shown}`"))?;
        let json: serde_json::Value =
            serde_json::from_slice(&body).with_context(|| format!("`{shown}` is not JSON"))?;
        let is_right = match self.protocol {
            Protocol::Inference => json.get("inputs").is_some_and(serde_json::Value::is_array),
            Protocol::OpenAi => json.get("prompt").is_some(),
        };
        if !is_right {
            let expected = match self.protocol {
                Protocol::Inference => "an array `inputs`",
                Protocol::OpenAi => "a `prompt`",
            };
            bail!("`{shown}` is not an inference request: expected {expected}")
        }
        Ok(Some(body))
    }

    /// Measures, and with --serve shows the outcome until a signal comes.
    async fn measure(
        &self,
        request: &ProfileRequest,
        database: &ProfileDatabase,
    ) -> Result<SessionOutcome> {
        let count = request.settings.len() as u64;
        let served = match self.serve {
            Some(address) => Some(ServedState::serve(address, count).await?),
            None => None,
        };
        let mut progress = Progress::new(count);
        let mut tell = |event| {
            progress.tell(&event);
            if let Some(served) = &served {
                served.note(&event);
            }
        };
        let outcome = tokio::select! {
            // The error's text includes its causes.
            outcome = profile(request, database, &mut tell) => outcome.map_err(|error| Error::msg(error.to_string()))?,
            signal = interrupted() => bail!(
                "{}; finished measurements are kept; run the same command again to continue", signal?
            ),
        };
        if let Some(served) = served {
            served.finish(&outcome);
            interrupted().await?;
        }
        Ok(outcome)
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn interrupted() -> Result<&'static str> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut hangup = signal(SignalKind::hangup()).context("cannot listen for SIGHUP")?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.context("cannot listen for SIGINT").map(|()| "interrupted"),
        _ = terminate.recv() => Ok("terminated"),
        _ = hangup.recv() => Ok("hung up"),
    }
}
