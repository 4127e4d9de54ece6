//! Input of a profiling session.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use tetris_store_layout::Digest;

use crate::gpu::ProfileGpu;
use crate::machine::Machine;
use crate::measure::RequestSource;
use crate::oip::{Protocol, RequestShape};
use crate::plan::SloBound;
use crate::setting::Setting;

/// Number of different requests to make.
const REQUESTS_MADE: usize = 16;

/// Input of a profiling session.
#[derive(Clone, Debug)]
pub struct ProfileRequest {
    /// Name of the profile.
    pub name: String,
    /// Name of the model in the inference protocol.
    pub model: String,
    /// Protocol of the server.
    pub protocol: Protocol,
    /// Number of new tokens of a completion.
    pub tokens: u32,
    /// Command line of an instance, with its placeholders.
    pub command: Vec<String>,
    /// Settings to measure.
    pub settings: Vec<Setting>,
    /// Loosest objective of the profile.
    pub bound: Option<SloBound>,
    /// Number of requests after which a configuration ends.
    pub requests: usize,
    /// Time after which a configuration ends.
    pub time: Duration,
    /// Time after which no further configuration is begun, once one is measured.
    pub budget: Option<Duration>,
    /// Timeout for an instance to become ready.
    pub ready_within: Duration,
    /// Timeout of a request.
    pub request_timeout: Duration,
    /// Store that the instances load through.
    pub store: Option<PathBuf>,
    /// Parent of the cgroups.
    pub cgroup_parent: Option<PathBuf>,
    /// Request to send, as JSON; by default requests are made from the metadata.
    pub body: Option<Vec<u8>>,
    /// Seed of random requests.
    pub seed: u64,
    /// Size of dynamic dimensions, and number of words of a text.
    pub dynamic_size: u32,
    /// True to measure again, and to replace the measurements in the database.
    pub fresh: bool,
    /// GPU of the instances, if they use one.
    pub gpu: Option<ProfileGpu>,
}

impl ProfileRequest {
    /// Returns a hash of all that affects the measurements, without the settings: another grid can
    /// reuse them.
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
            #[serde(skip_serializing_if = "Option::is_none")]
            gpu: Option<&'a ProfileGpu>,
            /// Protocol and tokens of another one than the Open Inference Protocol.
            #[serde(skip_serializing_if = "Option::is_none")]
            completions: Option<(Protocol, u32)>,
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
            gpu: self.gpu.as_ref(),
            completions: (self.protocol != Protocol::default())
                .then_some((self.protocol, self.tokens)),
        })?;
        Ok(Digest::of(&json).to_string())
    }

    pub(super) fn source(&self) -> RequestSource {
        match &self.body {
            Some(body) => RequestSource::Given(body.clone()),
            None => RequestSource::Made(
                RequestShape {
                    seed: self.seed,
                    count: REQUESTS_MADE,
                    dynamic_size: self.dynamic_size,
                },
                self.tokens,
            ),
        }
    }
}
