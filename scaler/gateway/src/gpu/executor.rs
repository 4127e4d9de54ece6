//! Executors: servers that are bound to one GPU each, and the task that follows one.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tetris_scaler_dispatch::gpu::GpuId;
use tokio::sync::Notify;

use super::client;
use super::pool::GpuPool;
use crate::function::Endpoint;
use crate::pool::Pool;

/// Pause between two pages while a model is on its way, and the shortest one at all times.
const LOADING: Duration = Duration::from_millis(20);
/// Name of the configuration of all executors, in metrics.
const CONFIGURATION: &str = "gpu";

/// An executor.
#[derive(Debug)]
pub(super) struct Executor {
    /// Number of its GPU.
    pub gpu: GpuId,
    pub endpoint: Arc<Endpoint>,
    /// Asks for its page soon.
    pub changed: Arc<Notify>,
}

impl Executor {
    pub(super) fn new(gpu: GpuId, address: SocketAddr) -> Self {
        let endpoint = Endpoint {
            name: address.to_string(),
            configuration: CONFIGURATION.to_owned(),
            address,
            pool: Pool::new(address),
        };
        Self {
            gpu,
            endpoint: Arc::new(endpoint),
            changed: Arc::default(),
        }
    }
}

/// Asks for the executor's page, in the pool's interval and after each change, until the pool or the
/// executor is gone.
pub(super) async fn follow(pool: Weak<GpuPool>, executor: Arc<Executor>) {
    loop {
        let Some(asking) = pool.upgrade() else { return };
        let Some(question) = asking.question(executor.gpu) else {
            return;
        };
        let interval = asking.poll();
        drop(asking);
        let answer = client::status(&executor.endpoint, question.parts).await;
        let Some(told) = pool.upgrade() else { return };
        let loads = match answer {
            Ok(status) => {
                told.learn(executor.gpu, question, &status);
                status.loads()
            }
            Err(error) => {
                told.lost(executor.gpu, &error.to_string());
                false
            }
        };
        drop(told);
        tokio::time::sleep(LOADING.min(interval)).await;
        if !loads {
            tokio::select! {
                () = tokio::time::sleep(interval.saturating_sub(LOADING)) => {}
                () = executor.changed.notified() => {}
            }
        }
    }
}
