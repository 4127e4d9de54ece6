//! Grants: the right to send one request of a function.

use std::sync::Arc;
use std::time::Duration;

use tetris_scaler_dispatch::Outcome;

use crate::endpoint::Endpoint;
use crate::engines::{Cut, EngineGrant};
use crate::gpu::GpuGrant;
use crate::instances::InstanceGrant;
use crate::refusal::Refusal;

/// The right to send one request to one instance or executor. Dropped without an outcome, the
/// request counts as left by its client.
#[derive(Debug)]
pub struct Grant(Held);

#[derive(Debug)]
enum Held {
    Instance(InstanceGrant),
    Gpu(GpuGrant),
    Engine(EngineGrant),
}

impl Grant {
    pub(super) const fn on_instance(grant: InstanceGrant) -> Self {
        Self(Held::Instance(grant))
    }

    pub(super) const fn on_gpu(grant: GpuGrant) -> Self {
        Self(Held::Gpu(grant))
    }

    pub(super) const fn on_engine(grant: EngineGrant) -> Self {
        Self(Held::Engine(grant))
    }

    /// Takes the signal that ends the request before its time.
    pub(crate) const fn take_cut(&mut self) -> Cut {
        match &mut self.0 {
            Held::Engine(grant) => grant.take_cut(),
            Held::Instance(_) | Held::Gpu(_) => Cut::never(),
        }
    }

    /// The instance.
    pub fn endpoint(&self) -> &Arc<Endpoint> {
        match &self.0 {
            Held::Instance(grant) => grant.endpoint(),
            Held::Gpu(grant) => grant.endpoint(),
            Held::Engine(grant) => grant.endpoint(),
        }
    }

    /// Time for which the request has waited.
    pub const fn waited(&self) -> Duration {
        match &self.0 {
            Held::Instance(grant) => grant.waited(),
            Held::Gpu(grant) => grant.waited(),
            Held::Engine(grant) => grant.waited(),
        }
    }

    /// The instance answered, with its own fault if it `failed`. Returns the time that the request's batch waited to
    /// be filled.
    pub fn answered(self, failed: bool) -> Duration {
        self.end(if failed {
            Outcome::Failed
        } else {
            Outcome::Served
        })
    }

    /// The instance broke off, answered with its own fault, or not in time.
    pub fn failed(self) {
        self.end(Outcome::Failed);
    }

    /// True if the request may be sent again after a part of it was, and no answer came.
    pub const fn repeats(&self) -> bool {
        match &self.0 {
            Held::Instance(_) | Held::Engine(_) => false,
            Held::Gpu(grant) => grant.repeats(),
        }
    }

    /// The instance could not be reached: waits for another one. Nothing was sent, or the request
    /// [`repeats`](Self::repeats).
    ///
    /// # Errors
    ///
    /// As [`Function::acquire`](super::Function::acquire).
    pub async fn unreachable(self) -> Result<Self, Refusal> {
        match self.0 {
            Held::Instance(grant) => Ok(Self::on_instance(grant.unreachable().await?)),
            Held::Gpu(grant) => Ok(Self::on_gpu(grant.unreachable().await?)),
            Held::Engine(grant) => Ok(Self::on_engine(grant.unreachable().await?)),
        }
    }

    fn end(self, outcome: Outcome) -> Duration {
        match self.0 {
            Held::Instance(grant) => grant.end(outcome),
            Held::Gpu(grant) => {
                grant.end(outcome);
                Duration::ZERO
            }
            Held::Engine(grant) => {
                grant.end(outcome);
                Duration::ZERO
            }
        }
    }
}
