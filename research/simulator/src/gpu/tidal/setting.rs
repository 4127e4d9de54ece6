//! A setting of the evaluation.

use serde::Serialize;
use tetris_simulation::TraceKind;

use super::costs::{Base, TidalCosts};
use super::kind::FunctionKind;

/// Time for which an idle instance stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepAlive {
    /// As long as its model takes to load.
    LoadingTime,
    /// A number of seconds.
    Seconds(u64),
}

/// Memory of a GPU for instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GpuRoom {
    /// One instance, of any model.
    OneInstance,
    /// As many instances as fit into a number of megabytes.
    Shared(u64),
}

/// Order of requests and their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduling {
    /// Requests with an instance first, then those that start soonest: `GpuPolicy::Sharing`.
    Soonest,
    /// Requests in their order, on an idle instance or else any free GPU.
    Fifo,
    /// LALBO3 of GPU-FaaS.
    Lalbo3,
}

/// Templates of Tidal-DK-6G.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TemplateSetting {
    /// Kind of the four functions that have one.
    pub kind: FunctionKind,
    /// Memory for templates on each of two GPUs, in bytes.
    pub bytes: u64,
    /// True for one prefix of all four on both GPUs, false for two functions on each GPU with a half.
    pub shared: bool,
}

/// A setting of the evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TidalSetting {
    /// Times and bytes.
    pub costs: TidalCosts,
    /// Requests per minute of all functions together, on average.
    pub per_minute: u64,
    /// Rates of a function with a low, a medium and a high rate, as weights.
    pub rates: [u64; 3],
    /// Turns of the assignment of these rates to functions, 0 to 2.
    pub turn: u32,
    /// Kind of the traces.
    pub trace: TraceKind,
    /// Length in seconds.
    pub seconds: u64,
    /// Time after which a waiting request leaves, in seconds.
    pub timeout_s: u64,
    /// Keep-alive of instances.
    pub keep_alive: KeepAlive,
    /// Number of GPUs.
    pub gpus: u32,
    /// Memory of GPUs.
    pub room: GpuRoom,
    /// True if an idle instance has its room until its keep-alive ends, false if it goes when another
    /// function needs the room.
    pub holds_idle: bool,
    /// Order of requests and their places.
    pub scheduling: Scheduling,
    /// Tokens of an answer after the first.
    pub more_tokens: u64,
    /// Time for which `ServerlessLLM`'s router holds each request, in microseconds.
    pub router_us: u64,
    /// Templates.
    pub templates: TemplateSetting,
    /// Seed of traces and arrivals.
    pub seed: u64,
}

impl TidalSetting {
    /// Memory for instances of the largest model, in bytes.
    const fn largest(&self) -> u64 {
        let (one, other) = (self.costs.llama3.bytes, self.costs.llama2.bytes);
        if one > other { one } else { other }
    }

    /// Memory for weights of a GPU that has `templates` bytes of templates, in bytes.
    pub(super) const fn memory_bytes(&self, templates: u64) -> u64 {
        match self.room {
            GpuRoom::OneInstance => self.largest() + templates,
            GpuRoom::Shared(mb) => mb * 1_000_000,
        }
    }

    /// Keep-alive of an instance, in microseconds.
    pub(super) fn keep_us(&self, base: Base) -> u64 {
        match self.keep_alive {
            KeepAlive::LoadingTime => self.costs.load_us(base),
            KeepAlive::Seconds(seconds) => seconds * 1_000_000,
        }
    }
}
