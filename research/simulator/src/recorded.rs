//! Requests of a scenario: generated, or from a file.

use serde::Serialize;
use tetris_scaler_core::Rate;
use tetris_simulation::traces::{Factor, RecordedFunction, RunLoad, ScaledTimes, TraceSample};
use tetris_simulation::{TraceKind, TraceSource};

use crate::catalog::Application;
use crate::error::SimulationError;
use crate::trace::{Arrivals, MAX_RPS, scaled};

const MINUTE_US: u64 = 60_000_000;

/// Requests of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum TraceInput {
    /// Generated, of this kind.
    Generated(TraceKind),
    /// From a file.
    Recorded(RecordedLoads),
}

impl From<TraceKind> for TraceInput {
    fn from(kind: TraceKind) -> Self {
        Self::Generated(kind)
    }
}

impl TraceInput {
    /// Label of the requests in reports.
    pub const fn source(&self) -> TraceSource {
        match self {
            Self::Generated(kind) => TraceSource::Generated(*kind),
            Self::Recorded(loads) => TraceSource::File(loads.sample.format()),
        }
    }
}

/// Functions of a file, dealt to the copies of all applications.
///
/// The first application has the first function of the sample, the second the second, and so on in turn. An
/// application that runs by itself has the same functions as together with the others. With fewer functions than
/// applications, some have the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedLoads {
    /// Chosen functions.
    pub sample: TraceSample,
    /// Number of copies of each application.
    pub copies: usize,
    /// Mean of the requests of all applications together, which have the shares of their functions. Without it each
    /// application has its own mean, as with generated requests.
    pub rate: Option<Rate>,
}

/// Iterator over the times of requests, in microseconds.
pub(crate) type Requests = Box<dyn Iterator<Item = u64>>;

impl RecordedLoads {
    /// Number of all applications with `copies` copies of each.
    pub fn applications(copies: usize) -> usize {
        Application::ALL.len() * copies.max(1)
    }

    /// Returns the mean of an application's requests, if the shares of its functions decide it.
    pub(crate) fn mean_of(&self, application: usize) -> Option<Rate> {
        let rate = u128::from(self.rate?.micro_rps());
        let all = Self::applications(self.copies);
        let requests = |application| -> u64 {
            let functions = self.sample.dealt(application, all);
            functions.map(RecordedFunction::requests).sum()
        };
        let sum: u64 = (0..all).map(requests).sum();
        let micro = (rate * u128::from(requests(application))).checked_div(u128::from(sum))?;
        u64::try_from(micro).ok().map(Rate::from_micro_rps)
    }

    /// Returns the requests of an application in a run of `seconds` seconds, with this mean. `stream` separates those of
    /// one seed.
    pub(crate) fn requests(
        &self,
        application: usize,
        mean: Rate,
        seconds: u64,
        (seed, stream): (u64, u64),
    ) -> Result<Requests, SimulationError> {
        let all = Self::applications(self.copies);
        match self.sample.load(application, all, seconds) {
            RunLoad::PerSecond(levels) => {
                let rates = scaled(&levels, mean);
                let peak = rates.iter().max().copied().unwrap_or(Rate::ZERO);
                if peak > Rate::from_rps(MAX_RPS) {
                    return Err(SimulationError::TraceTooFast { peak });
                }
                Ok(Box::new(Arrivals::new(rates, seed, stream)))
            }
            RunLoad::Times(times) => {
                let factor = Factor::to_mean(times.len() as u64, mean.micro_rps(), seconds);
                let minute_us = self.sample.window().run_us(MINUTE_US, seconds);
                let ends = (seconds.saturating_mul(1_000_000), minute_us);
                let scaled = ScaledTimes::new(times, factor, ends, seed, stream);
                Ok(Box::new(scaled.map(|time| time.at_us)))
            }
        }
    }
}
