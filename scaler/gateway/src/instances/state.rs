//! State of a function behind its lock: the dispatcher, its waiting tasks and its endpoints.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;

use tetris_scaler_dispatch::{
    Dispatch, Dispatcher, FunctionLoad, InstanceId, Outcome, Rejection, RequestId, Rules,
};
use tokio::sync::oneshot;

use crate::endpoint::{Endpoint, EndpointLoad, Instance};
use crate::pool::Pool;
use crate::refusal::Refusal;

/// An instance given to a request.
#[derive(Debug)]
pub(super) struct Given {
    pub(super) endpoint: Arc<Endpoint>,
    pub(super) waited_us: u64,
}

#[derive(Debug)]
pub(super) struct State {
    dispatcher: Dispatcher,
    waiters: HashMap<RequestId, oneshot::Sender<Given>>,
    endpoints: BTreeMap<InstanceId, Arc<Endpoint>>,
    ids: HashMap<String, InstanceId>,
    requests: u64,
    instances: u64,
    has_timer: bool,
}

impl State {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            dispatcher: Dispatcher::new(rules),
            waiters: HashMap::new(),
            endpoints: BTreeMap::new(),
            ids: HashMap::new(),
            requests: 0,
            instances: 0,
            has_timer: false,
        }
    }

    pub(super) fn set_rules(&mut self, rules: Rules) {
        self.dispatcher.set_rules(rules);
    }

    pub(super) fn set_instances(&mut self, now_us: u64, instances: &[Instance]) {
        let gone: Vec<String> = {
            let stays = |key: &str| instances.iter().any(|instance| instance.key == key);
            let gone = self.ids.keys().filter(|key| !stays(key));
            gone.cloned().collect()
        };
        for key in gone {
            if let Some(id) = self.ids.remove(&key) {
                self.dispatcher.remove_instance(id);
                self.endpoints.remove(&id);
            }
        }
        for instance in instances {
            self.set_instance(now_us, instance);
        }
        self.pump(now_us);
    }

    fn set_instance(&mut self, now_us: u64, instance: &Instance) {
        let known = self.ids.get(&instance.key).copied();
        let moved = |endpoint: &Arc<Endpoint>| endpoint.address != instance.address;
        if let Some(id) = known
            && self.endpoints.get(&id).is_none_or(moved)
        {
            self.ids.remove(&instance.key);
            self.dispatcher.remove_instance(id);
            self.endpoints.remove(&id);
        }
        if !self.ids.contains_key(&instance.key) && !instance.ready {
            return;
        }
        let id = *self.ids.entry(instance.key.clone()).or_insert_with(|| {
            self.instances = self.instances.saturating_add(1);
            let id = InstanceId(self.instances);
            let endpoint = Endpoint {
                name: instance.name.clone(),
                configuration: instance.configuration.clone(),
                address: instance.address,
                pool: Pool::new(instance.address),
            };
            self.endpoints.insert(id, Arc::new(endpoint));
            id
        });
        if instance.ready {
            self.dispatcher.add_instance(now_us, id, instance.capacity);
        } else {
            self.dispatcher.drain_instance(id);
        }
    }

    /// Queues a request, or gives it an instance at once.
    pub(super) fn offer(
        &mut self,
        now_us: u64,
        wait_us: Option<u64>,
    ) -> Result<(RequestId, Option<Given>), Rejection> {
        self.requests = self.requests.saturating_add(1);
        let id = RequestId(self.requests);
        let Some(dispatch) = self.dispatcher.start(now_us, id, wait_us)? else {
            return Ok((id, None));
        };
        let given = self.given(&dispatch);
        if given.is_none() {
            // Without an endpoint it waits for another instance.
            self.dispatcher.give_back(now_us, id);
        }
        Ok((id, given))
    }

    /// Queues a request that may go to those instances alone whose address is `eligible`.
    pub(super) fn offer_among(
        &mut self,
        now_us: u64,
        wait_us: Option<u64>,
        eligible: impl Fn(SocketAddr) -> bool,
    ) -> Result<RequestId, Refusal> {
        let known = self.endpoints.iter();
        let among = known.filter(|(_, endpoint)| eligible(endpoint.address));
        let among: BTreeSet<InstanceId> = among.map(|(&id, _)| id).collect();
        if among.is_empty() {
            return Err(Refusal::NotEligible);
        }
        self.requests = self.requests.saturating_add(1);
        let id = RequestId(self.requests);
        let offered = self.dispatcher.offer_among(now_us, id, wait_us, among);
        offered.map_err(Refusal::Rejected)?;
        Ok(id)
    }

    pub(super) fn give_back(&mut self, now_us: u64, id: RequestId) {
        self.dispatcher.give_back(now_us, id);
    }

    pub(super) fn complete(&mut self, now_us: u64, id: RequestId, outcome: Outcome) -> u64 {
        self.dispatcher.complete(now_us, id, outcome)
    }

    pub(super) fn cancel(&mut self, id: RequestId) {
        self.waiters.remove(&id);
        self.dispatcher.cancel(id);
    }

    /// Gives instances to waiting requests, `id` among them. The sender is dropped when the request expires.
    pub(super) fn wait(&mut self, now_us: u64, id: RequestId) -> oneshot::Receiver<Given> {
        let (sender, receiver) = oneshot::channel();
        self.waiters.insert(id, sender);
        self.pump(now_us);
        receiver
    }

    /// Returns true if the request waits still.
    pub(super) fn is_waiting(&self, id: RequestId) -> bool {
        self.waiters.contains_key(&id)
    }

    /// Ends expired requests and gives instances to those that can have one.
    pub(super) fn pump(&mut self, now_us: u64) {
        while let Some(expired) = self.dispatcher.expire(now_us) {
            self.waiters.remove(&expired);
        }
        while let Some(dispatch) = self.dispatcher.dispatch(now_us) {
            let given = self.given(&dispatch);
            let sender = self.waiters.remove(&dispatch.request);
            let taken = given
                .zip(sender)
                .is_some_and(|(given, sender)| sender.send(given).is_ok());
            if !taken {
                // Its client has left, and its task is about to say so.
                self.dispatcher.cancel(dispatch.request);
            }
        }
    }

    fn given(&self, dispatch: &Dispatch) -> Option<Given> {
        let endpoint = Arc::clone(self.endpoints.get(&dispatch.instance)?);
        let waited_us = dispatch.waited_us;
        Some(Given {
            endpoint,
            waited_us,
        })
    }

    /// Returns true if a timer must be started: requests wait, and none runs.
    pub(super) fn starts_timer(&mut self) -> bool {
        !std::mem::replace(&mut self.has_timer, true)
    }

    /// Time of the next event without a cause from outside. Without one, the timer ends.
    pub(super) fn next_us(&mut self) -> Option<u64> {
        let next = self.dispatcher.next_us();
        self.has_timer = next.is_some();
        next
    }

    pub(super) fn slo_us(&self) -> u64 {
        self.dispatcher.rules().slo.us()
    }

    pub(super) fn load(&self) -> FunctionLoad {
        self.dispatcher.load()
    }

    pub(super) fn oldest_wait_us(&self, now_us: u64) -> u64 {
        let first = self.dispatcher.first_arrival_us();
        first.map_or(0, |first| now_us.saturating_sub(first))
    }

    pub(super) fn endpoints(&self) -> Vec<EndpointLoad> {
        let loads = self.dispatcher.instances().filter_map(|load| {
            let endpoint = self.endpoints.get(&load.instance)?;
            Some(EndpointLoad {
                name: endpoint.name.clone(),
                configuration: endpoint.configuration.clone(),
                address: endpoint.address,
                load,
            })
        });
        loads.collect()
    }
}
