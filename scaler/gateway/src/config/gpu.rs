//! Pools of GPUs in the configuration: executors, policy and functions.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use tetris_scaler::resources::{FieldProblem, ServedPaths};
use tetris_scaler_dispatch::gpu::{GpuPolicy, LoadBalancing, SharingRules};
use tetris_units::duration;

use super::fields::{self, least};
use crate::gpu::{ExecutorAddresses, MemberRules, OrdersAddress};

/// A pool of GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GpuPoolConfig {
    /// Addresses of the executors, each of which is bound to one GPU.
    pub executors: Vec<SocketAddr>,
    /// Addresses at which the executors take orders, in the order of `executors`; none if they take
    /// them where they take requests.
    #[serde(default)]
    pub orders: Vec<SocketAddr>,
    /// File with the bearer token of orders, which is read for each of them.
    #[serde(default)]
    pub token_file: Option<PathBuf>,
    /// Policy that gives requests to GPUs.
    #[serde(default)]
    pub policy: PolicyConfig,
    /// Maximum number of waiting requests of all functions.
    #[serde(default = "super::usual_queue")]
    pub queue: usize,
    /// Interval in which each executor is asked for its state.
    #[serde(
        rename = "poll",
        with = "duration::milliseconds",
        default = "usual_poll_ms"
    )]
    pub poll_ms: u64,
    /// Functions by name.
    #[serde(default)]
    pub function: BTreeMap<String, GpuFunctionConfig>,
}

/// A policy with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, tag = "name", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PolicyConfig {
    /// The oldest request, to the GPU that has been idle for longest.
    Lb {},
    /// Shared parts, locality, slack and bandwidth together.
    Sharing(SharingConfig),
}

/// Settings of [`PolicyConfig::Sharing`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct SharingConfig {
    /// Number of times that a waiting request may be overtaken.
    pub overtaking_limit: u32,
    /// Slack below which a request is urgent, in percent of its time of service.
    pub urgent_percent: u32,
    /// True to refuse requests that cannot be in time.
    pub reject_late: bool,
}

impl Default for SharingConfig {
    fn default() -> Self {
        let rules = SharingRules::default();
        Self {
            overtaking_limit: rules.overtaking_limit,
            urgent_percent: percent(rules.urgent_permille),
            reject_late: rules.rejects_late,
        }
    }
}

impl SharingConfig {
    fn rules(&self) -> SharingRules {
        SharingRules {
            overtaking_limit: self.overtaking_limit,
            urgent_permille: permille(self.urgent_percent),
            rejects_late: self.reject_late,
        }
    }
}

impl Default for PolicyConfig {
    fn default() -> Self {
        Self::Sharing(SharingConfig::default())
    }
}

impl PolicyConfig {
    pub(crate) fn policy(&self) -> Arc<dyn GpuPolicy> {
        match self {
            Self::Lb {} => Arc::new(LoadBalancing),
            Self::Sharing(of) => Arc::new(of.rules()),
        }
    }
}

fn percent(permille: u64) -> u32 {
    u32::try_from(permille / 10).unwrap_or(u32::MAX)
}

fn permille(percent: u32) -> u64 {
    u64::from(percent) * 10
}

/// A function of a pool.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct GpuFunctionConfig {
    /// Objective of its latency.
    #[serde(rename = "slo", with = "duration::milliseconds")]
    pub slo_ms: u64,
    /// Latency of an inference with all weights on the GPU.
    #[serde(rename = "latency", with = "duration::milliseconds")]
    pub latency_ms: u64,
    /// Part of it that follows the last byte of a load; all of it if it is left out.
    #[serde(rename = "after_load", with = "fields::optional_ms", default)]
    pub after_load_ms: Option<u64>,
    /// Name of its model at the executors; the function's name if it is left out.
    #[serde(default)]
    pub model: Option<String>,
    /// Longest time for which a request waits for a GPU.
    #[serde(
        rename = "wait",
        with = "duration::milliseconds",
        default = "super::usual_wait_ms"
    )]
    pub wait_ms: u64,
    /// True if a request may be sent again when its executor is lost before an answer.
    #[serde(default)]
    pub idempotent: bool,
    /// Hosts of requests for it.
    #[serde(default)]
    pub hosts: Vec<String>,
    /// Models of the Open Inference Protocol that it serves.
    #[serde(default)]
    pub models: Vec<String>,
    /// Paths that it serves.
    #[serde(default, deserialize_with = "fields::paths")]
    pub paths: ServedPaths,
}

impl GpuPoolConfig {
    /// Interval in which each executor is asked for its state.
    pub(crate) const fn poll(&self) -> Duration {
        Duration::from_millis(self.poll_ms)
    }

    /// Addresses of the executors, for requests and for orders.
    pub(crate) fn addresses(&self) -> Vec<ExecutorAddresses> {
        let token_file: Option<Arc<std::path::Path>> = self.token_file.as_deref().map(Arc::from);
        let orders = self.orders.iter().map(Some).chain(std::iter::repeat(None));
        let addresses = self.executors.iter().zip(orders);
        addresses
            .map(|(&requests, orders)| ExecutorAddresses {
                requests,
                orders: orders
                    .zip(token_file.clone())
                    .map(|(&address, token_file)| OrdersAddress {
                        address,
                        token_file,
                    }),
            })
            .collect()
    }

    fn check_orders(&self, field: impl Fn(&str) -> String) -> Result<(), FieldProblem> {
        if !self.orders.is_empty() && self.orders.len() != self.executors.len() {
            let problem = format!(
                "found {} addresses, expected {}, one for each of `executors`",
                self.orders.len(),
                self.executors.len()
            );
            return Err(FieldProblem::new(field("orders"), problem));
        }
        if self.orders.is_empty() != self.token_file.is_none() {
            let set_field = if self.orders.is_empty() {
                "token_file"
            } else {
                "orders"
            };
            let problem = "expected both of `orders` and `token_file`, or neither";
            return Err(FieldProblem::new(field(set_field), problem));
        }
        let mut addresses = HashSet::new();
        for (at, address) in self.orders.iter().enumerate() {
            let field = field(&format!("orders[{at}]"));
            fields::listed_once(&field, *address, &mut addresses)?;
        }
        Ok(())
    }

    pub(super) fn check(&self, pool: &str) -> Result<(), FieldProblem> {
        let field = |field: &str| format!("gpu_pool.{pool}.{field}");
        self.check_orders(field)?;
        least(&field("poll"), self.poll_ms, 1)?;
        let mut addresses = HashSet::new();
        for (at, address) in self.executors.iter().enumerate() {
            let field = field(&format!("executors[{at}]"));
            fields::listed_once(&field, *address, &mut addresses)?;
        }
        for (name, function) in &self.function {
            let field = |of: &str| field(&format!("function.{name}.{of}"));
            fields::slo(&field("slo"), function.slo_ms)?;
            least(&field("latency"), function.latency_ms, 1)?;
            let after_ms = function.after_load_ms.unwrap_or(0);
            if after_ms > function.latency_ms {
                let most = function.latency_ms;
                let problem = format!("found {after_ms} ms, expected {most} at most, the latency");
                return Err(FieldProblem::new(field("after_load"), problem));
            }
            fields::name(&field("model"), function.model_name(name))?;
        }
        Ok(())
    }
}

impl GpuFunctionConfig {
    fn model_name<'a>(&'a self, function: &'a str) -> &'a str {
        self.model.as_deref().unwrap_or(function)
    }

    pub(crate) fn rules(&self, function: &str) -> MemberRules {
        MemberRules {
            slo: Duration::from_millis(self.slo_ms),
            wait: Duration::from_millis(self.wait_ms),
            model: self.model_name(function).to_owned(),
            aliases: self.models.clone(),
            latency: Duration::from_millis(self.latency_ms),
            after_load: Duration::from_millis(self.after_load_ms.unwrap_or(self.latency_ms)),
            idempotent: self.idempotent,
        }
    }
}

const fn usual_poll_ms() -> u64 {
    250
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    use super::*;

    const FILE: &str = r#"
[gpu_pool.main]
executors = ["127.0.0.1:8001", "127.0.0.1:8002"]

[gpu_pool.main.policy]
name = "sharing"
urgent_percent = 20

[gpu_pool.main.function.embed]
slo = "80ms"
latency = "26ms"
model = "minilm"
"#;

    #[test]
    fn a_pool_has_executors_a_policy_and_functions() {
        let pool = &Config::parse(FILE).unwrap().gpu_pool["main"];
        let PolicyConfig::Sharing(sharing) = &pool.policy else {
            panic!("{:?}", pool.policy);
        };
        let expected = SharingRules {
            urgent_permille: 200,
            ..SharingRules::default()
        };
        assert_eq!(sharing.rules(), expected);
        let rules = pool.function["embed"].rules("embed");
        assert_eq!((rules.model.as_str(), rules.idempotent), ("minilm", false));
    }

    #[test]
    fn orders_go_to_an_address_of_each_executor_with_a_token() {
        let pool = |more: &str| {
            let text = FILE.replace(
                "[gpu_pool.main.policy]",
                &format!("{more}\n[gpu_pool.main.policy]"),
            );
            Config::parse(&text).map(|config| config.gpu_pool["main"].addresses())
        };
        let without = pool("").unwrap();
        assert_eq!(without.len(), 2);
        assert!(without.iter().all(|executor| executor.orders.is_none()));
        let orders = "orders = [\"127.0.0.1:9001\", \"127.0.0.1:9002\"]";
        let with = pool(&format!("{orders}\ntoken_file = \"/run/token\"")).unwrap();
        let addresses: Vec<_> = with
            .iter()
            .map(|executor| {
                let orders = executor.orders.as_ref().unwrap();
                (
                    executor.requests.port(),
                    orders.address.port(),
                    orders.token_file.to_str(),
                )
            })
            .collect();
        assert_eq!(
            addresses,
            [
                (8001, 9001, Some("/run/token")),
                (8002, 9002, Some("/run/token"))
            ]
        );
        for (more, says) in [
            (orders, "`gpu_pool.main.orders`: expected both"),
            (
                "token_file = \"/run/token\"",
                "`gpu_pool.main.token_file`: expected both",
            ),
            (
                "token_file = \"/run/token\"\norders = [\"127.0.0.1:9001\"]",
                "`gpu_pool.main.orders`: found 1 addresses, expected 2",
            ),
            (
                "token_file = \"/run/token\"\norders = [\"127.0.0.1:9001\", \"127.0.0.1:9001\"]",
                "`gpu_pool.main.orders[1]`: found 127.0.0.1:9001 again",
            ),
        ] {
            let error = pool(more).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn defaults_are_those_of_the_policies() {
        let policy = |name: &str| {
            let text =
                format!("[gpu_pool.a]\nexecutors = []\n[gpu_pool.a.policy]\nname = \"{name}\"\n");
            Config::parse(&text).map(|config| config.gpu_pool["a"].policy.clone())
        };
        assert_eq!(policy("lb").unwrap(), PolicyConfig::Lb {});
        assert_eq!(policy("sharing").unwrap(), PolicyConfig::default());
        assert_eq!(SharingConfig::default().rules(), SharingRules::default());
        // Policies of earlier versions.
        for gone in ["lalb", "lalbo3", "torpor"] {
            let error = policy(gone).unwrap_err();
            assert!(
                error.to_string().contains("expected `lb` or `sharing`"),
                "{error}"
            );
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (from, to, says) in [
            (
                "8002",
                "8001",
                "`gpu_pool.main.executors[1]`: found 127.0.0.1:8001 again",
            ),
            (
                "\"80ms\"",
                "0",
                "`gpu_pool.main.function.embed.slo`: `slo_us` is 0",
            ),
            (
                "\"26ms\"",
                "0",
                "function.embed.latency`: found 0, expected at least 1",
            ),
            (
                "model =",
                "after_load = 27\nmodel =",
                "after_load`: found 27 ms, expected 26 at most",
            ),
            (
                "\"minilm\"",
                "\"a/b\"",
                "function.embed.model`: found \"a/b\"",
            ),
            ("\"sharing\"", "\"best\"", "unknown variant `best`"),
            (
                "urgent_percent",
                "late_percent",
                "unknown field `late_percent`",
            ),
            (
                "[gpu_pool.main.function.embed]",
                "[function.embed]\nslo = 1\n[gpu_pool.main.function.embed]",
                "`gpu_pool.main.function.embed`: the function is in the file itself as well",
            ),
        ] {
            let error = Config::parse(&FILE.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
