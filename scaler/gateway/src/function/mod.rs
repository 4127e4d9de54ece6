//! Functions, for tasks that wait: each has its own instances, a pool of GPUs, or an engine that sleeps.

mod access;
mod grant;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use hyper::http::uri::PathAndQuery;
use tetris_scaler_dispatch::{FunctionLoad, Rules};

use crate::candidate::Candidate;
use crate::endpoint::{EndpointLoad, Instance};
use crate::engines::EngineMember;
use crate::function_name::FunctionName;
use crate::gpu::Member;
use crate::instances::InstanceQueue;
use crate::problem::Problem;
use crate::refusal::Refusal;

pub use access::Access;
pub use grant::Grant;

/// A function.
#[derive(Debug)]
pub struct Function {
    name: FunctionName,
    number: u64,
    access: RwLock<Arc<Access>>,
    service: Service,
}

/// Servers of a function.
#[derive(Debug)]
enum Service {
    /// Instances of this function.
    Instances(InstanceQueue),
    /// A pool of GPUs, which other functions use as well.
    Gpus(Member),
    /// An engine of a group on one device.
    Engine(EngineMember),
}

impl Function {
    /// Creates a function without instances.
    pub fn new(name: FunctionName, rules: Rules) -> Arc<Self> {
        let service = Service::Instances(InstanceQueue::new(rules));
        Arc::new(Self::with(name, service))
    }

    /// Creates a function that a pool of GPUs serves.
    pub(crate) fn on_gpus(name: FunctionName, member: Member) -> Arc<Self> {
        let service = Service::Gpus(member);
        Arc::new(Self::with(name, service))
    }

    /// Creates a function that an engine of a group serves.
    pub(crate) fn on_engine(name: FunctionName, member: EngineMember) -> Arc<Self> {
        let service = Service::Engine(member);
        Arc::new(Self::with(name, service))
    }

    fn with(name: FunctionName, service: Service) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        Self {
            name,
            number,
            access: RwLock::default(),
            service,
        }
    }

    /// Number by which it is known within the process, and no other function is.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Name of the function.
    pub const fn name(&self) -> &FunctionName {
        &self.name
    }

    /// Access to it.
    pub(crate) fn access(&self) -> Arc<Access> {
        Arc::clone(&self.access.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the access to it.
    pub fn set_access(&self, access: Access) {
        *self.access.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
    }

    /// Changes the rules of dispatch to its own instances.
    pub fn set_rules(&self, rules: Rules) {
        if let Service::Instances(queue) = &self.service {
            queue.set_rules(rules);
        }
    }

    /// Replaces the list of this function's instances. Those that are gone keep the requests that they have.
    pub fn set_instances(&self, instances: &[Instance]) {
        if let Service::Instances(queue) = &self.service {
            queue.set_instances(instances);
        }
    }

    /// Returns true if the function has its own instances.
    pub(crate) const fn has_instances(&self) -> bool {
        matches!(self.service, Service::Instances(_))
    }

    /// Path of a request as its server must get it; `None` for the same.
    pub(crate) fn path(&self, path: &PathAndQuery) -> Result<Option<PathAndQuery>, Problem> {
        match &self.service {
            Service::Instances(_) | Service::Engine(_) => Ok(None),
            Service::Gpus(member) => member.path(&self.name, path).map(Some),
        }
    }

    /// Waits for an instance with room, or a GPU. The grant's end, or its drop, frees it again.
    ///
    /// # Errors
    ///
    /// Fails if the queue is full, or the wait would be or was too long.
    pub async fn acquire(&self, wait: Option<Duration>) -> Result<Grant, Refusal> {
        match &self.service {
            Service::Instances(queue) => Ok(Grant::on_instance(queue.acquire(wait).await?)),
            Service::Gpus(member) => Ok(Grant::on_gpu(Box::pin(member.acquire(wait)).await?)),
            Service::Engine(member) => Ok(Grant::on_engine(Box::pin(member.acquire(wait)).await?)),
        }
    }

    /// Waits for an instance with room, as [`acquire`](Self::acquire) does, but only for those whose
    /// address is `eligible` now.
    ///
    /// # Errors
    ///
    /// Fails as [`acquire`](Self::acquire), and if no known instance is eligible.
    pub async fn acquire_among(
        &self,
        wait: Option<Duration>,
        eligible: impl Fn(SocketAddr) -> bool,
    ) -> Result<Grant, Refusal> {
        match &self.service {
            Service::Instances(queue) => Ok(Grant::on_instance(
                queue.acquire_among(wait, eligible).await?,
            )),
            Service::Gpus(_) | Service::Engine(_) => Err(Refusal::ProxyOnly),
        }
    }

    /// Objective of the function's latency.
    pub fn slo(&self) -> Duration {
        match &self.service {
            Service::Instances(queue) => queue.slo(),
            Service::Gpus(member) => member.slo(),
            Service::Engine(member) => member.slo(),
        }
    }

    /// Load of the function.
    pub fn load(&self) -> FunctionLoad {
        match &self.service {
            Service::Instances(queue) => queue.load(),
            Service::Gpus(member) => member.load(),
            Service::Engine(member) => member.load(),
        }
    }

    /// Loads of this function's instances.
    pub fn endpoints(&self) -> Vec<EndpointLoad> {
        match &self.service {
            Service::Instances(queue) => queue.endpoints(),
            Service::Gpus(_) | Service::Engine(_) => Vec::new(),
        }
    }

    /// Servers that a request may get, as they are now.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        match &self.service {
            Service::Instances(queue) => {
                queue.endpoints().into_iter().map(Candidate::from).collect()
            }
            Service::Gpus(member) => member.candidates(),
            Service::Engine(member) => member.candidates(),
        }
    }

    /// Time for which the longest waiting request has waited.
    pub fn oldest_wait(&self) -> Duration {
        match &self.service {
            Service::Instances(queue) => queue.oldest_wait(),
            Service::Gpus(member) => member.oldest_wait(),
            Service::Engine(member) => member.oldest_wait(),
        }
    }
}
