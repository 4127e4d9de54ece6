//! Pages of all gateways, and the loads from them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tetris_scaler_core::{Arrivals, Backlog, LOAD_MEAN_MS, Rate, Slo};

use super::page::{FunctionPage, Page};
use super::{Gateway, GatewayError, GatewayProblem, GatewayReading};
use crate::load::LoadError;
use crate::resources::Percentile;
use crate::state::Key;

/// Time without an answer of a ready gateway after which loads are unknown.
pub const SILENT_AFTER: Duration = Duration::from_secs(3);
const SILENT_MS: u64 = SILENT_AFTER.as_millis() as u64;
/// Time over which arrivals must be known before a mean of them is significant, in milliseconds.
const LEAST_MEAN_MS: u64 = 1_000;
/// Time for which arrivals are kept, in milliseconds: the mean ends at the last answer.
const KEPT_MS: u64 = LOAD_MEAN_MS + SILENT_MS;
/// Maximum rise of a counter, in requests per millisecond: a million per second.
const MOST_PER_MS: u64 = 1_000;

/// Loads of all functions, from all gateways.
#[derive(Debug, Default)]
pub struct GatewayLoads(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Gateways by pod.
    gateways: BTreeMap<String, Known>,
    arrivals: BTreeMap<Key, Arrivals>,
    /// Time since which the arrivals at all gateways are counted; `None` before the first answer.
    since_ms: Option<u64>,
}

/// A gateway and its last valid page.
#[derive(Debug)]
struct Known {
    gateway: Gateway,
    /// Time of the last answer, or since which the gateway must answer.
    heard_ms: u64,
    page: Option<(u64, Page)>,
    error: Option<GatewayError>,
}

impl Known {
    /// Returns the last page and its time, if that is not too long ago.
    fn fresh(&self, now_ms: u64) -> Option<&Page> {
        let (at_ms, page) = self.page.as_ref()?;
        (now_ms.saturating_sub(*at_ms) <= SILENT_MS).then_some(page)
    }

    fn is_silent(&self, now_ms: u64) -> bool {
        self.gateway.is_ready && now_ms.saturating_sub(self.heard_ms) > SILENT_MS
    }

    /// Returns the reason the gateway is silent.
    fn silence(&self) -> GatewayError {
        let problem = || GatewayProblem::Unreachable("it has not been asked".to_owned());
        let error = self.error.clone();
        error.unwrap_or_else(|| GatewayError::new(&self.gateway, problem()))
    }
}

impl GatewayLoads {
    /// Sets the gateways that exist at `now_ms`, in monotonic milliseconds. Arrivals at those that are gone
    /// count until they are too old.
    pub fn set(&self, gateways: &[Gateway], now_ms: u64) {
        let mut state = self.lock();
        let mut before = std::mem::take(&mut state.gateways);
        for gateway in gateways {
            let known = before.remove(&gateway.pod);
            let known = known.filter(|known| known.gateway.address == gateway.address);
            let mut known = known.unwrap_or_else(|| Known {
                gateway: gateway.clone(),
                heard_ms: now_ms,
                page: None,
                error: None,
            });
            if gateway.is_ready && !known.gateway.is_ready {
                known.heard_ms = now_ms;
            }
            known.gateway = gateway.clone();
            state.gateways.insert(gateway.pod.clone(), known);
        }
        let arrivals = &mut state.arrivals;
        arrivals.retain(|_, one| !one.forget(now_ms, KEPT_MS));
    }

    /// Takes in the answer that `gateway` gave at `now_ms`. That of a gateway that is gone is ignored. Returns
    /// the functions with requests that wait.
    ///
    /// # Errors
    ///
    /// Fails if the answer is an error, if it is as old as the last one, or if a counter rose by more than is
    /// plausible. The last page then stays in force, until it is too old.
    pub fn answered(
        &self,
        gateway: &Gateway,
        answer: Result<Page, GatewayError>,
        now_ms: u64,
    ) -> Result<Vec<Key>, GatewayError> {
        let mut state = self.lock();
        let State {
            gateways,
            arrivals,
            since_ms,
        } = &mut *state;
        let Some(known) = gateways.get_mut(&gateway.pod) else {
            return Ok(Vec::new());
        };
        let checked = answer.and_then(|page| {
            let risen = known.risen(&page, now_ms)?;
            Ok((page, risen))
        });
        let (page, risen) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                known.error = Some(error.clone());
                return Err(error);
            }
        };
        let from_ms = known.page.as_ref().map_or(now_ms, |(at_ms, _)| *at_ms);
        for (key, count) in risen {
            let counts = arrivals.entry(key).or_default();
            counts.add(from_ms, now_ms, count, KEPT_MS);
        }
        let since = since_ms.get_or_insert(now_ms);
        // At the start, arrivals are counted once all gateways have answered.
        if known.page.is_none() && now_ms.saturating_sub(*since) < SILENT_MS {
            *since = now_ms;
        }
        let waiting = page
            .functions
            .iter()
            .filter(|(_, function)| function.waiting > 0);
        let waiting = waiting.map(|(key, _)| key.clone()).collect();
        (known.heard_ms, known.error) = (now_ms, None);
        known.page = Some((now_ms, page));
        Ok(waiting)
    }

    /// Returns the load of `function` at `now_ms`, with its latency at a percentile.
    pub fn of(
        &self,
        function: &Key,
        slo: Slo,
        percentile: Percentile,
        now_ms: u64,
    ) -> GatewayReading {
        let state = self.lock();
        let pages: Vec<&FunctionPage> = state.pages(function, now_ms).collect();
        let latencies = pages.iter().filter_map(|page| page.latency);
        let latency = latencies.map(|latency| latency.at_us(percentile)).max();
        let mut pods: BTreeMap<String, Rate> = BTreeMap::new();
        for (pod, outstanding) in pages.iter().flat_map(|page| &page.outstanding) {
            let sum = pods.entry(pod.clone()).or_default();
            *sum = sum.plus(Rate::from_rps(*outstanding));
        }
        let load = state.load(function, slo, &pages, now_ms);
        let unknown = load.as_ref().err().cloned();
        GatewayReading {
            load,
            pods,
            latency: latency.ok_or_else(|| unknown.unwrap_or(LoadError::NoRequests)),
            is_demanded: pages
                .iter()
                .any(|page| page.waiting > 0 || page.in_flight > 0),
        }
    }

    /// Returns the number of ready gateways, and of those that answered a moment before `now_ms`.
    pub fn counts(&self, now_ms: u64) -> (usize, usize) {
        let state = self.lock();
        let ready = state
            .gateways
            .values()
            .filter(|entry| entry.gateway.is_ready);
        let answer = ready
            .clone()
            .filter(|gateway| gateway.fresh(now_ms).is_some());
        (ready.count(), answer.count())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Returns the number of requests that arrived at the gateway between its last page and `page`, by
    /// function.
    fn risen(&self, page: &Page, now_ms: u64) -> Result<Vec<(Key, u64)>, GatewayError> {
        let Some((at_ms, before)) = &self.page else {
            return Ok(Vec::new());
        };
        let malformed =
            |problem| GatewayError::new(&self.gateway, GatewayProblem::Malformed(problem));
        let is_same_start = before.started_ms == page.started_ms;
        if is_same_start && page.at_ms <= before.at_ms {
            return Err(malformed(format!(
                "found loads of {} ms, expected newer ones than of {} ms",
                page.at_ms, before.at_ms
            )));
        }
        let passed_ms = now_ms.saturating_sub(*at_ms).max(1);
        // After a long silence as well as after a short one.
        let most = MOST_PER_MS.saturating_mul(passed_ms.max(LEAST_MEAN_MS));
        let mut risen = Vec::new();
        for (key, function) in &page.functions {
            let last = before.functions.get(key).filter(|_| is_same_start);
            let last = last.map_or(0, |last| last.requests);
            // A counter that fell began again.
            let count = function
                .requests
                .checked_sub(last)
                .unwrap_or(function.requests);
            if count > most {
                return Err(malformed(format!(
                    "{key}: found {count} requests within {passed_ms} ms, expected at most {most}"
                )));
            }
            risen.push((key.clone(), count));
        }
        Ok(risen)
    }
}

impl State {
    /// Returns what gateways that answered a moment ago know of a function.
    fn pages(&self, function: &Key, now_ms: u64) -> impl Iterator<Item = &FunctionPage> {
        let fresh = self
            .gateways
            .values()
            .filter_map(move |entry| entry.fresh(now_ms));
        fresh.filter_map(move |page| page.functions.get(function))
    }

    /// Returns the load of a function with these pages.
    fn load(
        &self,
        function: &Key,
        slo: Slo,
        pages: &[&FunctionPage],
        now_ms: u64,
    ) -> Result<Rate, LoadError> {
        if let Some(error) = self.unknown(!pages.is_empty(), now_ms) {
            return Err(error);
        }
        let (end_ms, known_ms) = self.counted(now_ms);
        let waiting = pages.iter().map(|page| page.waiting);
        let waiting = waiting.fold(0, u64::saturating_add);
        let oldest_ms = pages.iter().map(|page| page.oldest_wait_ms).max();
        let is_late = oldest_ms.is_some_and(|oldest| oldest.saturating_mul(1_000) > slo.us());
        let none = Arrivals::default();
        let arrivals = self.arrivals.get(function).unwrap_or(&none);
        Ok(arrivals.load(end_ms, known_ms, Backlog { waiting, is_late }))
    }

    /// Returns the time until which the arrivals at all ready gateways are counted, which is the earliest of
    /// their last answers, and the time for which they are.
    fn counted(&self, now_ms: u64) -> (u64, u64) {
        let ready = self
            .gateways
            .values()
            .filter(|entry| entry.gateway.is_ready);
        let answered = ready.filter_map(|gateway| gateway.page.as_ref());
        let end_ms = answered.map(|(at_ms, _)| *at_ms).min().unwrap_or(now_ms);
        let since_ms = self.since_ms.unwrap_or(end_ms);
        (end_ms, end_ms.saturating_sub(since_ms))
    }

    /// Returns the reason a load is unknown. `is_listed` is true if a gateway knows the function.
    fn unknown(&self, is_listed: bool, now_ms: u64) -> Option<LoadError> {
        let mut ready = self
            .gateways
            .values()
            .filter(|entry| entry.gateway.is_ready);
        if ready.clone().next().is_none() {
            return Some(LoadError::NoGateway);
        }
        if let Some(silent) = ready.clone().find(|gateway| gateway.is_silent(now_ms)) {
            return Some(LoadError::GatewaySilent {
                problem: silent.silence().to_string(),
            });
        }
        let (_, known_ms) = self.counted(now_ms);
        // Another gateway has little to count when it becomes ready, unlike the ones at the start.
        let is_incomplete = ready.any(|gateway| gateway.page.is_none()) && known_ms < SILENT_MS;
        if known_ms < LEAST_MEAN_MS || is_incomplete {
            return Some(LoadError::NotAsked);
        }
        (!is_listed).then_some(LoadError::NotListed)
    }
}
