//! Rejections of requests for engines.

use thiserror::Error;

/// The reason a request is not sent to its engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EngineRejection {
    /// The queue of the group is full.
    #[error("{waiting} requests wait for engines of its group, expected fewer")]
    Full {
        /// Number of waiting requests.
        waiting: usize,
    },
    /// The engine cannot be reached, or does not answer.
    #[error("its engine does not answer; start the engine, or see the gateway's log")]
    Unreachable,
    /// The engine cannot sleep or wake up.
    #[error(
        "its engine has no path /is_sleeping; start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1"
    )]
    NoPaths,
    /// The engine did not wake up.
    #[error("its engine did not wake up; the gateway's log has the engine's answer")]
    WakeFailed {
        /// Time until the next attempt, in microseconds.
        retry_us: u64,
    },
    /// Engines that cannot be put to sleep have the memory.
    #[error(
        "engines that cannot be put to sleep leave too little of the device's memory; see /engines for their states"
    )]
    NoRoom,
}
