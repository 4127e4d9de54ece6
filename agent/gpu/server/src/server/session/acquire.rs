//! Admission of a client's model, with refusals and waits.

use std::time::{Duration, Instant};

use super::lease::Lease;
use super::model::{RequestedModel, refused};
use super::{Ended, Session};
use crate::residency::{DeviceId, Refusal};
use crate::server::object_limit::TooManyObjects;
use crate::server::source::NotMapped;
use crate::server::state::{Ask, Held};
use tetris_gpu_device::DeviceMemory;
use tetris_gpu_protocol::{Acquire, Reason, Refused, Reply, Request};

/// Refusals for lack of device memory.
const NO_ROOM: [Reason; 4] = [
    Reason::TOO_LARGE,
    Reason::QUOTA,
    Reason::IN_USE,
    Reason::DEVICE_FULL,
];

/// Outcome of a request.
enum AcquireOutcome {
    Admitted(Held),
    Refused(Refused),
    GivenUp,
}

/// A place among the connections that wait for room.
struct Waiting<'a, D: DeviceMemory> {
    session: &'a Session<D>,
    number: u64,
}

impl<D: DeviceMemory> Drop for Waiting<'_, D> {
    fn drop(&mut self) {
        self.session.core.state().wait_no_longer(self.number);
    }
}

impl<D: DeviceMemory> Session<D> {
    /// Admits the model, after a wait for room if need be. `None` if the client has been notified that
    /// it is not.
    pub(super) fn acquire(&self, acquire: &Acquire) -> Result<Option<Lease<D>>, Ended> {
        self.core.metrics.acquires.one();
        // Drops news of an earlier model.
        let _stale = self.mailbox.take();
        let begun = Instant::now();
        let (outcome, permit) = match self.model(acquire)? {
            Ok(model) => {
                let known = begun.elapsed();
                let outcome = self.admit(acquire, &model)?;
                tracing::debug!(objects = model.spec.parts().len(), ?known, admitted = ?begun.elapsed(), "asked for a model");
                (outcome, Some(model.permit))
            }
            Err(refused) => (AcquireOutcome::Refused(refused), None),
        };
        match outcome {
            AcquireOutcome::Admitted(held) => {
                return Ok(Some(Lease::new(&self.core, held, permit)));
            }
            AcquireOutcome::Refused(refused) => {
                self.core.metrics.refused.one();
                if NO_ROOM.contains(&refused.reason) {
                    self.core.metrics.refused_no_room.one();
                }
                self.reply(&Reply::Refused(refused))?;
            }
            AcquireOutcome::GivenUp => self.reply(&Reply::Released)?,
        }
        Ok(None)
    }

    fn admit(&self, acquire: &Acquire, model: &RequestedModel) -> Result<AcquireOutcome, Ended> {
        let on = match acquire.on.map(|uuid| (uuid, self.core.device(uuid))) {
            None => None,
            Some((_, Some(id))) => Some(id),
            Some((uuid, None)) => {
                let text = format!("expected a device of this server, found {uuid}; list them");
                return Ok(AcquireOutcome::Refused(refused(Reason::NO_DEVICE, text)));
            }
        };
        let wait = Duration::from_millis(acquire.wait_ms.into());
        let end = Instant::now() + wait.min(self.core.limits().longest_wait);
        let mut waiting = None;
        loop {
            let mut outcome = self.attempt(model, on);
            // Other programs may have freed memory.
            if outcome.as_ref().is_err_and(Refusal::may_wait) && self.core.follow_pressed() {
                outcome = self.attempt(model, on);
            }
            let refusal = match outcome {
                Ok(outcome) => return Ok(outcome),
                Err(refusal) => refusal,
            };
            if !refusal.may_wait() || Instant::now() >= end {
                return Ok(AcquireOutcome::Refused(tell(&refusal)));
            }
            let Some(_) = &waiting else {
                // Retries once after this: room that became free before the registration rang no
                // bell.
                self.core.metrics.waited.one();
                let number = self.core.state().wait(self.tenant.id, &self.mailbox);
                waiting = Some(Waiting {
                    session: self,
                    number,
                });
                continue;
            };
            if self.wait(&refusal, end)? {
                return Ok(AcquireOutcome::GivenUp);
            }
        }
    }

    /// Tries to admit the model.
    fn attempt(
        &self,
        model: &RequestedModel,
        on: Option<DeviceId>,
    ) -> Result<AcquireOutcome, Refusal> {
        if let Some(text) = self.core.state().lost(on) {
            return Ok(AcquireOutcome::Refused(refused(Reason::NO_DEVICE, text)));
        }
        let _turn = self.tenant.turn();
        let (tenant, spec) = (self.tenant.id, &model.spec);
        let missing = self.core.state().manager.missing(tenant, spec, on);
        match model.sources.map_all(&missing) {
            Ok(()) => {}
            Err(NotMapped::Missing(refused)) => return Ok(AcquireOutcome::Refused(refused)),
            Err(NotMapped::TooMany(TooManyObjects { free })) => {
                let need = missing.len();
                return Err(Refusal::Objects { need, free });
            }
        }
        let ask = Ask {
            tenant,
            spec,
            on,
            sources: &model.sources,
            mailbox: &self.mailbox,
            now_ms: self.core.now_ms(),
        };
        self.core.admit(&ask).map(AcquireOutcome::Admitted)
    }

    /// Waits until there may be room. Returns true if the client no longer waits.
    fn wait(&self, refusal: &Refusal, end: Instant) -> Result<bool, Ended> {
        let (need_bytes, free_bytes) = match refusal {
            Refusal::InUse {
                need_bytes,
                free_bytes,
                ..
            } => (*need_bytes, *free_bytes),
            Refusal::Quota {
                need_bytes,
                quota_bytes,
                held_bytes,
                ..
            } => (*need_bytes, quota_bytes.saturating_sub(*held_bytes)),
            Refusal::Taken {
                need_bytes,
                capacity_bytes,
                ..
            } => (*need_bytes, *capacity_bytes),
            _ => (0, 0),
        };
        self.reply(&Reply::Waiting {
            need_bytes,
            free_bytes,
        })?;
        let until = end.min(Instant::now() + self.core.limits().keepalive);
        let message = self.listen(Some(until))?;
        self.mailbox.bell.hush();
        match message {
            None => Ok(false),
            Some(Request::Release) => Ok(true),
            Some(_) => Err(Ended::OutOfTurn {
                expected: "Release, or nothing, while the model waits",
            }),
        }
    }
}

/// Converts a refusal into the message for clients.
fn tell(refusal: &Refusal) -> Refused {
    let (reason, missing_bytes) = match refusal {
        Refusal::NoDevice { .. } => (Reason::NO_DEVICE, 0),
        Refusal::TooLarge {
            need_bytes,
            capacity_bytes,
        } => (
            Reason::TOO_LARGE,
            need_bytes.saturating_sub(*capacity_bytes),
        ),
        Refusal::Quota {
            quota_bytes,
            held_bytes,
            need_bytes,
            ..
        } => {
            let wanted = held_bytes.saturating_add(*need_bytes);
            (Reason::QUOTA, wanted.saturating_sub(*quota_bytes))
        }
        Refusal::InUse {
            need_bytes,
            free_bytes,
            ..
        } => (Reason::IN_USE, need_bytes.saturating_sub(*free_bytes)),
        Refusal::Taken {
            need_bytes,
            capacity_bytes,
            ..
        } => {
            let missing_bytes = need_bytes.saturating_sub(*capacity_bytes);
            (Reason::DEVICE_FULL, missing_bytes)
        }
        Refusal::Objects { .. } => (Reason::IN_USE, 0),
        Refusal::Length { .. } => (Reason::INVALID, 0),
    };
    Refused {
        missing_bytes,
        ..refused(reason, refusal.to_string())
    }
}
