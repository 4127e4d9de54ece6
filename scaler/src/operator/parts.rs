//! Parts of the operator, and its timing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use kube::Client;
use tetris_scaler_core::Settings;
use tokio::sync::watch;

use crate::gateways::GatewayClient;
use crate::lease::Leadership;
use crate::load::Prometheus;
use crate::metrics::Metrics;
use crate::placement::PlacementMode;
use crate::pod_client::PodClient;
use crate::state::Snapshot;

/// Minimum time between two passes, unless a function is woken.
pub(super) const LEAST: Duration = Duration::from_secs(1);

/// Timing and settings of passes.
#[derive(Debug, Clone)]
pub struct Options {
    /// Interval of load queries, and maximum interval of passes.
    pub interval: Duration,
    /// Interval of polls of the daemons.
    pub poll: Duration,
    /// Namespace of the operator.
    pub namespace: String,
    /// Namespace of the daemons.
    pub daemons: String,
    /// Namespace of the gateways.
    pub gateways: String,
    /// Steady time after which instances may be replaced; `None` for never.
    pub consolidate_after: Option<Duration>,
    /// Time for which an instance may be unready on its node before others take its place.
    pub failing_after: Duration,
    /// Settings of plans.
    pub settings: Settings,
    /// Way in which pods get to the nodes of the plan.
    pub placement: PlacementMode,
}

/// Parts of the operator.
pub struct Operator {
    /// Timing and settings.
    pub options: Options,
    /// Client of the API server.
    pub client: Client,
    /// Leadership of this replica.
    pub leadership: Leadership,
    /// Metrics of the scaler.
    pub metrics: Arc<Metrics>,
    /// Channel for snapshots of decisions.
    pub published: watch::Sender<Arc<Snapshot>>,
    /// Set after the first pass.
    pub ready: Arc<AtomicBool>,
    /// Source of loads by queries.
    pub prometheus: Option<Prometheus>,
    /// Source of loads that gateways count.
    pub gateways: GatewayClient,
    /// Client of pods that keep models, and that measure functions.
    pub pods: PodClient,
}
