//! Instances of functions on nodes.

use tetris_scaler_core::{Configuration, Slo};

use super::job::Job;
use crate::server::Server;

/// Phase of an instance's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Starting,
    Ready,
    /// Takes no more requests, and stops after its last one.
    Draining,
    Gone,
}

/// An instance of a function.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) function: usize,
    pub(super) node: usize,
    /// Index of the configuration in the function's profile.
    pub(super) index: usize,
    pub(super) configuration: Configuration,
    pub(super) phase: Phase,
    pub(super) server: Server<Job>,
    /// Number of requests taken since the last pass of the scaler.
    pub(super) taken: u64,
    /// True if the instance stops once its replacement is ready.
    pub(super) retiring: bool,
}

impl Instance {
    pub(super) fn new(
        function: usize,
        node: usize,
        index: usize,
        configuration: Configuration,
        slo: Slo,
    ) -> Self {
        Self {
            function,
            node,
            index,
            configuration,
            phase: Phase::Starting,
            server: Server::new(&configuration, configuration.batch_wait_us(slo)),
            taken: 0,
            retiring: false,
        }
    }

    /// CPU of one thread, in millicores.
    pub(super) fn thread_millis(&self) -> u64 {
        self.configuration.cpu_millis() / u64::from(self.configuration.concurrency())
    }
}
