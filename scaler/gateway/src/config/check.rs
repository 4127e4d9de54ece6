//! Ranges of a configuration, and the function that each part stands for.

use std::collections::{BTreeMap, HashSet};

use tetris_scaler::resources::FieldProblem;
use tetris_scaler_core::MAX_BATCH;
use tetris_scaler_dispatch::{Capacity, Rules};

use super::engines;
use super::fields::{self, least};
use super::{ClusterDefaults, Config, FunctionConfig, InstanceConfig};
use crate::endpoint::Instance;

/// Least memory for heads: that of a few connections.
const LEAST_HEADS: u64 = 1 << 20;

pub(super) fn check(config: &Config) -> Result<(), FieldProblem> {
    let limits = &config.limits;
    least("limits.connections", limits.connections as u64, 1)?;
    least(
        "limits.connections_per_client",
        limits.connections_per_client as u64,
        1,
    )?;
    least("limits.streams", limits.streams.into(), 1)?;
    // hyper needs as much for the smallest head.
    least("limits.head", limits.head_bytes as u64, 8 << 10)?;
    least("limits.headers", limits.header_fields as u64, 1)?;
    if let Some(heads) = limits.heads_bytes {
        least("limits.heads", heads as u64, LEAST_HEADS)?;
    }
    if let Some(bodies) = limits.bodies_bytes {
        // One client, and one function, gets half at most.
        let twice = (limits.body_bytes as u64).saturating_mul(2);
        if (bodies as u64) < twice {
            let problem = format!("found {bodies}, expected at least {twice}, twice limits.body");
            return Err(FieldProblem::new("limits.bodies", problem));
        }
    }
    let timeouts = &config.timeouts;
    for (field, ms) in [
        ("timeouts.head", timeouts.head_ms),
        ("timeouts.body", timeouts.body_ms),
        ("timeouts.read", timeouts.read_ms),
        ("timeouts.request", timeouts.request_ms),
        ("timeouts.response", timeouts.response_ms),
        ("timeouts.idle", timeouts.idle_ms),
        ("timeouts.stop", timeouts.stop_ms),
    ] {
        least(field, ms, 1)?;
    }
    config.callers.check()?;
    for (name, function) in &config.function {
        fields::name("name of a function", name)?;
        function.check(name)?;
    }
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, pool) in &config.gpu_pool {
        fields::name("name of a GPU pool", name)?;
        pool.check(name)?;
        for function in pool.function.keys() {
            fields::name("name of a function", function)?;
            let field = || format!("gpu_pool.{name}.function.{function}");
            named_once(config, &mut known, (name, function), field)?;
        }
    }
    for (name, group) in &config.engine_group {
        fields::name("name of a group of engines", name)?;
        group.check(name)?;
        for engine in group.engine.keys() {
            fields::name("name of an engine", engine)?;
            let field = || format!("engine_group.{name}.engine.{engine}");
            named_once(config, &mut known, (name, engine), field)?;
        }
    }
    engines::check_names(&config.engine_group)
}

/// Checks that no other part of the file has a function of this name.
fn named_once<'a>(
    config: &'a Config,
    known: &mut BTreeMap<&'a str, &'a str>,
    (owner, function): (&'a str, &'a str),
    field: impl Fn() -> String,
) -> Result<(), FieldProblem> {
    let before = if config.function.contains_key(function) {
        Some("the file itself")
    } else {
        known.insert(function, owner)
    };
    if let Some(before) = before {
        let problem = format!("the function is in {before} as well; list it once");
        return Err(FieldProblem::new(field(), problem));
    }
    Ok(())
}

impl FunctionConfig {
    fn check(&self, name: &str) -> Result<(), FieldProblem> {
        fields::slo(&format!("function.{name}.slo"), self.slo_ms)?;
        let mut addresses = HashSet::new();
        for (at, entry) in self.instance.iter().enumerate() {
            let field = |field: &str| format!("function.{name}.instance[{at}].{field}");
            for (name, found) in [("batch", entry.batch), ("concurrency", entry.concurrency)] {
                if !(1..=MAX_BATCH).contains(&found) {
                    let problem = format!("found {found}, expected 1 to {MAX_BATCH}");
                    return Err(FieldProblem::new(field(name), problem));
                }
            }
            least(&field("latency"), entry.latency_ms, 1)?;
            fields::listed_once(&field("address"), entry.address, &mut addresses)?;
        }
        Ok(())
    }

    /// Rules of its dispatch, if its objective is in range.
    pub(crate) fn rules(&self) -> Option<Rules> {
        let of = ClusterDefaults {
            queue: self.queue,
            wait_ms: self.wait_ms,
            reject_late: self.reject_late,
            slow_start_ms: self.slow_start_ms,
        };
        Some(of.rules(fields::slo("slo", self.slo_ms).ok()?))
    }

    /// Its instances. The address is their identity.
    pub(crate) fn instances(&self) -> Vec<Instance> {
        self.instance.iter().map(InstanceConfig::instance).collect()
    }
}

impl InstanceConfig {
    fn instance(&self) -> Instance {
        Instance {
            key: self.address.to_string(),
            name: self.address.to_string(),
            configuration: format!("b{}-p{}", self.batch, self.concurrency),
            address: self.address,
            capacity: Capacity {
                batch: self.batch,
                concurrency: self.concurrency,
                latency_us: self.latency_ms.saturating_mul(1_000),
                batch_wait_us: self.batch_wait_ms.saturating_mul(1_000),
                rate: None,
            },
            ready: !self.drain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
[limits]
body = "1MiB"

[function.embed]
slo = "200ms"
models = ["minilm"]

[[function.embed.instance]]
address = "127.0.0.1:8001"
batch = 4
concurrency = 2
latency = "80ms"
batch_wait = "10ms"
"#;

    #[test]
    fn a_file_has_functions_with_instances() {
        let config = Config::parse(FILE).unwrap();
        assert_eq!(config.limits.body_bytes, 1 << 20);
        let function = &config.function["embed"];
        let rules = function.rules().unwrap();
        assert_eq!(
            (rules.slo.us(), rules.queue, rules.wait_us),
            (200_000, 1_000, 60_000_000)
        );
        let instances = function.instances();
        assert_eq!(
            (
                instances[0].capacity.slots(),
                instances[0].capacity.batch_wait_us
            ),
            (8, 10_000)
        );
        assert!(instances[0].ready);
    }

    #[test]
    fn mistakes_are_named_with_their_place() {
        for (from, to, says) in [
            (
                "slo = \"200ms\"",
                "slo = 0",
                "`function.embed.slo`: `slo_us` is 0",
            ),
            (
                "batch = 4",
                "batch = 0",
                "`function.embed.instance[0].batch`: found 0, expected 1 to 4096",
            ),
            (
                "latency = \"80ms\"",
                "latency = 0",
                "instance[0].latency`: found 0, expected at least 1",
            ),
            ("latency = \"80ms\"", "", "missing field `latency`"),
            ("models", "model", "unknown field `model`"),
            (
                "body = \"1MiB\"",
                "head = 1",
                "`limits.head`: found 1, expected at least 8192",
            ),
            ("127.0.0.1:8001", "localhost", "invalid socket address"),
            (
                "function.embed",
                "function.\"a b\"",
                "`name of a function`: found \"a b\", expected a name of letters",
            ),
        ] {
            let error = Config::parse(&FILE.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
        let twice = format!(
            "{FILE}\n[[function.embed.instance]]\naddress = \"127.0.0.1:8001\"\nlatency = 1\n"
        );
        assert!(
            Config::parse(&twice)
                .unwrap_err()
                .to_string()
                .contains("instance[1].address`: found 127.0.0.1:8001 again")
        );
    }
}
