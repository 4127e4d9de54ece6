//! Profiling session: measures all configurations of a grid.

mod error;
mod event;
mod outcome;
mod request;

use std::sync::Arc;
use std::time::{Instant, SystemTime};

pub use error::ProfileError;
pub use event::Event;
pub use outcome::{Fate, SessionOutcome};
pub use request::ProfileRequest;

use crate::cgroup::{Cgroup, CgroupError, Hierarchy, Limits, sweep};
use crate::cpus::CpuList;
use crate::database::{ProfileDatabase, StoredProfile};
use crate::load::Amount;
use crate::machine::Machine;
use crate::measure::Bench;
use crate::measurement::Measurement;
use crate::plan::ruled_out;
use crate::setting::Setting;
use crate::shared::{SharedPart, SharedStore};

/// Receiver of progress events.
pub type Listener<'a> = &'a mut (dyn FnMut(Event) + Send);

/// Measures all settings that `database` does not have, and stores each finished configuration at
/// once.
///
/// Dropping the future ends the current instance.
///
/// # Errors
///
/// Fails if the database, the store or the CPUs cannot be used, if the first start fails, or if no
/// configuration could be measured.
pub async fn profile(
    request: &ProfileRequest,
    database: &ProfileDatabase,
    tell: Listener<'_>,
) -> Result<SessionOutcome, ProfileError> {
    let machine = Machine::this();
    let identity = request.identity(&machine)?;
    if request.fresh {
        database.forget(&request.name)?;
    }
    let known = database.measurements(&request.name, &identity)?;
    let stored = database.profile(&request.name)?;
    let stored = stored.filter(|stored| stored.identity == identity);
    let mut session = Session {
        request,
        database,
        known,
        profile: stored.unwrap_or_else(|| StoredProfile {
            identity,
            model: request.model.clone(),
            command: request.command.clone(),
            machine,
            at: now(),
            shared: SharedPart::default(),
        }),
    };
    let fates = session.settings(tell).await?;
    let outcome = SessionOutcome {
        name: request.name.clone(),
        profile: session.profile,
        fates,
    };
    nothing(&outcome).map_or(Ok(outcome), Err)
}

/// Returns the profile `name` as the database has it, or `None`.
///
/// # Errors
///
/// Fails if the database cannot be read.
pub fn stored(
    name: &str,
    database: &ProfileDatabase,
) -> Result<Option<SessionOutcome>, ProfileError> {
    let Some(profile) = database.profile(name)? else {
        return Ok(None);
    };
    let measured = database.measurements(name, &profile.identity)?;
    let fates = measured
        .into_iter()
        .map(|measurement| (measurement.setting, Fate::Measured(measurement)));
    Ok(Some(SessionOutcome {
        name: name.to_owned(),
        fates: fates.collect(),
        profile,
    }))
}

struct Session<'a> {
    request: &'a ProfileRequest,
    database: &'a ProfileDatabase,
    /// Measurements of this grid and of earlier ones.
    known: Vec<Measurement>,
    profile: StoredProfile,
}

impl Session<'_> {
    async fn settings(&mut self, tell: Listener<'_>) -> Result<Vec<(Setting, Fate)>, ProfileError> {
        let settings = &self.request.settings;
        let count = settings
            .iter()
            .filter(|setting| self.known(**setting).is_some())
            .count();
        if count > 0 {
            tell(Event::Resumed { count });
        }
        let (mut bench, mut fates) = (None, Vec::new());
        let (began, mut left) = (Instant::now(), 0);
        for (place, &setting) in settings.iter().enumerate() {
            let fate = if let Some(known) = self.known(setting) {
                Fate::Measured(known.clone())
            } else if self.is_over(began) {
                left += 1;
                Fate::OutOfTime
            } else if let Some(why) = ruled_out(setting, &self.known, self.request.bound) {
                tell(Event::RuledOut(setting, why));
                Fate::RuledOut(why)
            } else {
                if bench.is_none() {
                    bench = Some(self.bench(setting, tell).await?);
                }
                let of = settings.len();
                tell(Event::Measuring { setting, place, of });
                self.measure(bench.as_ref(), setting, tell).await?
            };
            fates.push((setting, fate));
        }
        if left > 0 {
            tell(Event::OutOfTime(left));
        }
        let mut on_gpus = self.known.iter().filter_map(|entry| entry.on_gpu.as_ref());
        if on_gpus.any(|on| on.inference_micros.is_none()) {
            tell(Event::Warning(
                "the server does not tell the time of its batches (/v2/models/NAME/stats), so an instance takes the whole time of a GPU".to_owned(),
            ));
        }
        if self.request.store.is_some() && self.profile.shared.is_empty() {
            tell(Event::Warning(
                "the instances mapped no object of the store; set TETRIS_STORE for them".to_owned(),
            ));
        }
        Ok(fates)
    }

    /// Returns true once the budget is used up and something is measured.
    fn is_over(&self, began: Instant) -> bool {
        let budget = self.request.budget;
        budget.is_some_and(|budget| began.elapsed() >= budget) && !self.known.is_empty()
    }

    fn known(&self, setting: Setting) -> Option<&Measurement> {
        self.known.iter().find(|entry| entry.setting == setting)
    }

    async fn measure(
        &mut self,
        bench: Option<&Bench>,
        setting: Setting,
        tell: Listener<'_>,
    ) -> Result<Fate, ProfileError> {
        let Some(bench) = bench else {
            return Ok(Fate::Failed(
                "there is no bench to measure it with".to_owned(),
            ));
        };
        let mut says = |what| tell(Event::Doing { setting, what });
        let measured = bench.measure(setting, &mut says).await;
        match measured {
            Ok((measurement, shared)) => {
                self.profile.shared.merge(shared);
                self.profile.at = now();
                self.database
                    .record(&self.request.name, &self.profile, &measurement)?;
                self.known.push(measurement.clone());
                tell(Event::Measured(measurement.clone()));
                Ok(Fate::Measured(measurement))
            }
            Err(error) => {
                let error = error.to_string();
                tell(Event::Failed(setting, error.clone()));
                Ok(Fate::Failed(error))
            }
        }
    }

    /// Prepares all measurements and runs the first start.
    async fn bench(&self, first: Setting, tell: Listener<'_>) -> Result<Bench, ProfileError> {
        let request = self.request;
        let cpus = CpuList::of_this_process()?;
        let widest = request.settings.iter().map(Setting::whole_cpus).max();
        let widest = widest.unwrap_or(1);
        cpus.take(widest)?;
        if widest == cpus.len() as u64 {
            tell(Event::Warning(format!(
                "configurations with {widest} CPUs share them with the load's clients, and seem slower than they are"
            )));
        }
        let store = request
            .store
            .as_deref()
            .map(SharedStore::open)
            .transpose()?;
        let mut bench = Bench {
            command: request.command.clone(),
            model: request.model.clone(),
            protocol: request.protocol,
            bodies: Arc::default(),
            store,
            hierarchy: hierarchy(request, &cpus, tell)?,
            cpus,
            amount: Amount {
                requests: request.requests,
                time: request.time,
                patience: request.request_timeout,
            },
            gpu: request.gpu.clone(),
            ready_within: request.ready_within,
        };
        tell(Event::FirstStart);
        let started = bench.first_start(first, &request.source()).await;
        started.map_err(ProfileError::FirstStart)?;
        Ok(bench)
    }
}

/// Returns the hierarchy for cgroups, or `None` if none can be created. Removes cgroups of killed
/// profilers.
fn hierarchy(
    request: &ProfileRequest,
    cpus: &CpuList,
    tell: Listener<'_>,
) -> Result<Option<Hierarchy>, ProfileError> {
    let error = match usable(request, cpus) {
        Ok(hierarchy) => {
            let removed = sweep(&hierarchy);
            if removed > 0 {
                tell(Event::Warning(format!(
                    "removed {removed} cgroups of a killed profiler"
                )));
            }
            return Ok(Some(hierarchy));
        }
        Err(error) => error.to_string(),
    };
    let mut settings = request.settings.iter();
    if let Some(setting) = settings.find(|setting| setting.cpu_millis % 1_000 != 0) {
        return Err(ProfileError::Fraction {
            setting: setting.name(),
            reason: error,
        });
    }
    tell(Event::Warning(format!(
        "no cgroup can be created, so instances are only bound to CPUs, and no memory limit is verified ({error})"
    )));
    Ok(None)
}

/// Returns the hierarchy if a cgroup with limits can be created in it.
fn usable(request: &ProfileRequest, cpus: &CpuList) -> Result<Hierarchy, CgroupError> {
    let hierarchy = Hierarchy::of_this_process(request.cgroup_parent.as_deref())?;
    let limits = Limits {
        cpu_millis: 1_000,
        cpus: cpus.clone(),
        memory_bytes: Some(64 << 20),
    };
    Cgroup::create(&hierarchy, &limits)?;
    Ok(hierarchy)
}

/// Returns an error if no configuration was measured and at least one failed.
fn nothing(outcome: &SessionOutcome) -> Option<ProfileError> {
    if outcome.measured().next().is_some() {
        return None;
    }
    outcome.fates.iter().find_map(|(setting, fate)| match fate {
        Fate::Failed(error) => Some(ProfileError::Nothing {
            setting: setting.name(),
            error: error.clone(),
        }),
        Fate::Measured(_) | Fate::RuledOut(_) | Fate::OutOfTime => None,
    })
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
