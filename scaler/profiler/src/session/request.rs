//! What is to be profiled.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tetris_store_layout::Digest;

use crate::machine::Machine;
use crate::measure::RequestSource;
use crate::oip::RequestShape;
use crate::plan::SloBound;
use crate::setting::Setting;

/// How many different requests are made.
const REQUESTS_MADE: usize = 16;

/// What is to be profiled, and how.
#[derive(Clone, Debug)]
pub struct ProfileRequest {
    /// The profile's name.
    pub name: String,
    /// The model's name in the inference protocol.
    pub model: String,
    /// The command of an instance, with its placeholders.
    pub command: Vec<String>,
    /// What is varied.
    pub settings: Vec<Setting>,
    /// The loosest objective that the profile is for.
    pub bound: Option<SloBound>,
    /// Requests per configuration after which it is enough.
    pub requests: usize,
    /// Time per configuration after which it is enough.
    pub time: Duration,
    /// How long an instance may take to be ready.
    pub ready_within: Duration,
    /// How long one request may take.
    pub request_timeout: Duration,
    /// The store that instances load through.
    pub store: Option<PathBuf>,
    /// Where cgroups are made.
    pub cgroup_parent: Option<PathBuf>,
    /// The request to send, as JSON.
    pub body: Option<Vec<u8>>,
    /// What random requests begin with.
    pub seed: u64,
    /// The size of dimensions of any size, and the words of a text.
    pub dynamic_size: u32,
    /// Whether to measure again what is in the database.
    pub fresh: bool,
}

impl ProfileRequest {
    /// Hash of what defines the measurements, but for the settings: another grid goes on with what is there.
    pub(super) fn identity(&self, machine: &Machine) -> Result<String, serde_json::Error> {
        #[derive(Serialize)]
        struct Identity<'a> {
            model: &'a str,
            command: &'a [String],
            requests: usize,
            time_ms: u128,
            store: Option<&'a PathBuf>,
            body: Option<String>,
            seed: u64,
            dynamic_size: u32,
            machine: &'a Machine,
        }
        let json = serde_json::to_vec(&Identity {
            model: &self.model,
            command: &self.command,
            requests: self.requests,
            time_ms: self.time.as_millis(),
            store: self.store.as_ref(),
            body: self
                .body
                .as_deref()
                .map(|body| Digest::of(body).to_string()),
            seed: self.seed,
            dynamic_size: self.dynamic_size,
            machine,
        })?;
        Ok(Digest::of(&json).to_string())
    }

    pub(super) fn source(&self) -> RequestSource {
        match &self.body {
            Some(body) => RequestSource::Given(body.clone()),
            None => RequestSource::Metadata(RequestShape {
                seed: self.seed,
                count: REQUESTS_MADE,
                dynamic_size: self.dynamic_size,
            }),
        }
    }
}
