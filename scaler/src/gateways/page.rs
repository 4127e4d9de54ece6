//! Page `/loads` of a gateway.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::error::GatewayProblem;
use crate::resources::Percentile;
use crate::shown::shown;
use crate::state::Key;

/// Supported version of the page.
const VERSION: u32 = 1;
/// Maximum latency, in milliseconds: a day.
const MOST_MS: f64 = 86_400_000.0;

/// Loads of all functions, as one gateway counts them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Time of the gateway's start, in milliseconds since the epoch. With another one all counters have
    /// begun again.
    pub started_ms: u64,
    /// Monotonic time of the page in milliseconds, by the gateway's clock.
    pub at_ms: u64,
    /// Functions that the gateway knows.
    pub functions: BTreeMap<Key, FunctionPage>,
}

/// Load of one function at one gateway.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FunctionPage {
    /// Number of requests that arrived since the gateway's start, also those that it refused.
    pub requests: u64,
    /// Number of requests that wait for an instance.
    pub waiting: u64,
    /// Number of requests that instances serve.
    pub in_flight: u64,
    /// Time for which the oldest request has waited, in milliseconds; zero if none waits.
    pub oldest_wait_ms: u64,
    /// Time in service over the last minute, without the waits of batches to fill; `None` without requests.
    pub latency: Option<LatencyPage>,
    /// Number of requests that each instance serves, by its pod.
    pub outstanding: BTreeMap<String, u64>,
}

/// Time that requests took in service, in milliseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize)]
pub struct LatencyPage {
    /// The median.
    pub p50_ms: f64,
    /// The 95th percentile.
    pub p95_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
}

impl LatencyPage {
    /// Returns the latency at a percentile, in microseconds. Gateways have no 90th percentile: the 95th, which
    /// is no less, stands for it.
    pub fn at_us(&self, percentile: Percentile) -> u64 {
        let ms = match percentile {
            Percentile::P50 => self.p50_ms,
            Percentile::P90 | Percentile::P95 => self.p95_ms,
            Percentile::P99 => self.p99_ms,
        };
        (ms * 1_000.0).round() as u64
    }
}

#[derive(Debug, Deserialize)]
struct Document {
    version: u32,
    gateway: String,
    started_ms: u64,
    at_ms: u64,
    functions: Vec<Function>,
}

#[derive(Debug, Deserialize)]
struct Function {
    namespace: String,
    function: String,
    requests: u64,
    waiting: u64,
    in_flight: u64,
    /// Null or absent where none waits.
    oldest_wait_ms: Option<u64>,
    latency: Option<LatencyPage>,
    #[serde(default)]
    instances: Vec<Instance>,
}

#[derive(Debug, Deserialize)]
struct Instance {
    pod: String,
    outstanding: u64,
}

impl Page {
    /// Parses the page of the gateway in the pod `gateway`.
    ///
    /// # Errors
    ///
    /// Fails if the page is malformed, of another version, or of another gateway, or if it has a function
    /// twice.
    pub fn read(body: &[u8], gateway: &str) -> Result<Self, GatewayProblem> {
        let document: Document = serde_json::from_slice(body).map_err(|error| {
            malformed(format!(
                "cannot parse the loads: {}",
                short(&error.to_string())
            ))
        })?;
        if document.version != VERSION {
            return Err(malformed(format!(
                "found version {} of the loads, expected {VERSION}; use a gateway and a scaler of the same release",
                document.version
            )));
        }
        if document.gateway != gateway {
            return Err(malformed(format!(
                "found the loads of {:?}, expected those of {gateway:?}",
                short(&document.gateway)
            )));
        }
        let mut page = Self {
            started_ms: document.started_ms,
            at_ms: document.at_ms,
            functions: BTreeMap::new(),
        };
        for entry in document.functions {
            let key = Key::new(entry.namespace.as_str(), entry.function.as_str());
            let shown = short(&key.to_string());
            if let Some(ms) = entry.wrong_latency() {
                return Err(malformed(format!(
                    "{shown}: found a latency of {ms} ms, expected 0 to {MOST_MS}"
                )));
            }
            if page.functions.insert(key, entry.read()).is_some() {
                return Err(malformed(format!(
                    "found {shown} twice in the loads, expected it once"
                )));
            }
        }
        Ok(page)
    }
}

impl Function {
    /// A latency that is out of range, in milliseconds.
    fn wrong_latency(&self) -> Option<f64> {
        let LatencyPage {
            p50_ms,
            p95_ms,
            p99_ms,
        } = self.latency?;
        let mut all = [p50_ms, p95_ms, p99_ms].into_iter();
        all.find(|ms| !(0.0..=MOST_MS).contains(ms))
    }

    fn read(self) -> FunctionPage {
        let mut outstanding: BTreeMap<String, u64> = BTreeMap::new();
        for instance in self.instances {
            let sum = outstanding.entry(instance.pod).or_default();
            *sum = sum.saturating_add(instance.outstanding);
        }
        FunctionPage {
            requests: self.requests,
            waiting: self.waiting,
            in_flight: self.in_flight,
            oldest_wait_ms: self
                .oldest_wait_ms
                .filter(|_| self.waiting > 0)
                .unwrap_or(0),
            latency: self.latency,
            outstanding,
        }
    }
}

fn malformed(problem: String) -> GatewayProblem {
    GatewayProblem::Malformed(problem)
}

fn short(text: &str) -> String {
    shown(text, 256)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = r#"{"version":1,"gateway":"a","started_ms":7,"at_ms":9,"later":[],
        "functions":[{"namespace":"search","function":"embed","requests":5,"waiting":3,"in_flight":2,
        "oldest_wait_ms":120,"later":1,"latency":{"p50_ms":1.5,"p95_ms":20,"p99_ms":30.25},
        "instances":[{"pod":"x","outstanding":2},{"pod":"y","outstanding":0}]},
        {"namespace":"search","function":"idle","requests":0,"waiting":0,"in_flight":0,
        "oldest_wait_ms":0,"latency":null,"instances":[]}]}"#;

    #[test]
    fn a_page_is_read_and_unknown_fields_are_ignored() {
        let page = Page::read(EXAMPLE.as_bytes(), "a").unwrap();
        assert_eq!((page.started_ms, page.at_ms), (7, 9));
        let search = &page.functions[&Key::new("search", "embed")];
        assert_eq!(
            (search.requests, search.waiting, search.in_flight),
            (5, 3, 2)
        );
        assert_eq!(search.oldest_wait_ms, 120);
        let latency = search.latency.unwrap();
        assert_eq!(latency.at_us(Percentile::P50), 1_500);
        assert_eq!(latency.at_us(Percentile::P90), 20_000);
        assert_eq!(latency.at_us(Percentile::P95), 20_000);
        assert_eq!(latency.at_us(Percentile::P99), 30_250);
        assert_eq!(search.outstanding["x"], 2);
        assert_eq!(page.functions[&Key::new("search", "idle")].latency, None);
    }

    #[test]
    fn an_invalid_page_is_an_error() {
        let cases = [
            ("\"version\":1", "\"version\":2", "expected 1"),
            (
                "\"gateway\":\"a\"",
                "\"gateway\":\"b\"",
                "expected those of \"a\"",
            ),
            ("\"requests\":5", "\"requests\":-5", "cannot parse"),
            ("\"requests\":5,", "", "requests"),
            (
                "\"p95_ms\":20",
                "\"p95_ms\":-20",
                "search/embed: found a latency",
            ),
            ("\"p95_ms\":20", "\"p95_ms\":1e300", "expected 0 to"),
            ("\"idle\"", "\"embed\"", "twice"),
            ("{\"version\"", "[\"version\"", "cannot parse"),
        ];
        for (from, to, expected) in cases {
            let text = EXAMPLE.replacen(from, to, 1);
            assert_ne!(text, EXAMPLE, "{from}");
            let Err(GatewayProblem::Malformed(error)) = Page::read(text.as_bytes(), "a") else {
                panic!("{text}");
            };
            assert!(error.contains(expected), "{error}, expected {expected}");
        }
    }
}
