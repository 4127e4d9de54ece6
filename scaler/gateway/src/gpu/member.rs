//! Functions of a pool.

use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use hyper::http::uri::PathAndQuery;
use tetris_scaler_dispatch::FunctionLoad;
use tetris_scaler_dispatch::gpu::ModelId;

use super::grant::GpuGrant;
use super::models::Times;
use super::pool::GpuPool;
use crate::candidate::Candidate;
use crate::clock::micros;
use crate::function_name::FunctionName;
use crate::problem::{Problem, shortened};
use crate::refusal::Refusal;

const MODELS: &str = "/v2/models/";

/// Rules of a function of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberRules {
    /// Objective of its latency: the deadline is so long after the arrival.
    pub slo: Duration,
    /// Longest time for which a request waits for a GPU.
    pub wait: Duration,
    /// Name of its model at the executors.
    pub model: String,
    /// Names of its model in requests, besides that one and the function's own.
    pub aliases: Vec<String>,
    /// Time of an inference with all weights on the GPU.
    pub latency: Duration,
    /// Part of it that follows the last byte of a load.
    pub after_load: Duration,
    /// True if a request may be sent again after a part of it was.
    pub idempotent: bool,
}

/// A function of a pool.
#[derive(Debug)]
pub(crate) struct Member {
    pool: Arc<GpuPool>,
    function: u32,
    model: ModelId,
    rules: MemberRules,
}

impl Member {
    /// Creates a function with its number in the pool.
    pub(crate) fn new(pool: &Arc<GpuPool>, function: u32, rules: MemberRules) -> Self {
        let times = Times {
            infer_us: micros(rules.latency),
            after_load_us: micros(rules.after_load),
        };
        let model = pool.model(&rules.model, times);
        Self {
            pool: Arc::clone(pool),
            function,
            model,
            rules,
        }
    }

    /// Waits for a GPU.
    pub(crate) async fn acquire(&self, wait: Option<Duration>) -> Result<GpuGrant, Refusal> {
        let rules = &self.rules;
        let wait = wait.map_or(rules.wait, |wait| wait.min(rules.wait));
        let of = (self.function, self.model);
        self.pool
            .acquire(of, rules.slo, wait, rules.idempotent)
            .await
    }

    /// Path of a request with the model's name at the executors. An executor has many models: a
    /// request must not reach that of another function.
    pub(crate) fn path(
        &self,
        function: &FunctionName,
        path: &PathAndQuery,
    ) -> Result<PathAndQuery, Problem> {
        let not_found = |shown: String| {
            Problem::new(
                StatusCode::NOT_FOUND,
                "not-found",
                format!("function {function}: {shown}"),
            )
        };
        let Some(rest) = path.as_str().strip_prefix(MODELS) else {
            let path = shortened(path.path());
            return Err(not_found(format!(
                "path {path}, expected {MODELS}{}/... for a function on GPUs",
                self.rules.model
            )));
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        let names = [&self.rules.model, &function.name];
        if !names
            .into_iter()
            .chain(&self.rules.aliases)
            .any(|entry| entry == name)
        {
            return Err(not_found(format!(
                "model `{}`, expected `{}`",
                shortened(name),
                self.rules.model
            )));
        }
        let path = format!("{MODELS}{}{rest}", self.rules.model);
        PathAndQuery::try_from(path).map_err(|error| not_found(error.to_string()))
    }

    /// Executors of its pool.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        self.pool.candidates()
    }

    pub(crate) const fn slo(&self) -> Duration {
        self.rules.slo
    }

    pub(crate) fn load(&self) -> FunctionLoad {
        let (waiting, in_flight, _) = self.pool.load_of(self.function);
        FunctionLoad {
            waiting,
            in_flight,
            available: self.pool.available(),
        }
    }

    pub(crate) fn oldest_wait(&self) -> Duration {
        self.pool.load_of(self.function).2
    }
}
