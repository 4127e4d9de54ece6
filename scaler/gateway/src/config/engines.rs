//! Groups of engines that sleep in the configuration.

use std::collections::{BTreeMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use tetris_scaler::resources::{FieldProblem, ServedPaths};
use tetris_scaler_dispatch::engines::{EngineRules, GroupRules};
use tetris_units::{duration, size};

use super::fields::{self, least};
use crate::clock::micros;
use crate::engines::{EngineSettings, GroupSettings, SleepLevel};

/// Largest number of engines of a group.
const MAX_ENGINES: usize = 64;
/// Largest number of names of one engine's model and adapters.
const MAX_NAMES: usize = 64;
/// Longest name of a model, in bytes.
const MAX_NAME: usize = 256;
/// Largest number of waiting requests.
const MAX_QUEUE: usize = 1_000_000;
/// Largest memory of a device, in bytes.
const MAX_MEMORY: u64 = 1 << 48;
/// Time for cut requests to end before their engine is ordered to sleep.
const CUT: Duration = Duration::from_secs(2);

/// Paths of vLLM in development mode, which control an engine.
const CONTROL: [&str; 12] = [
    "/sleep",
    "/wake_up",
    "/is_sleeping",
    "/collective_rpc",
    "/pause",
    "/resume",
    "/is_paused",
    "/reset_prefix_cache",
    "/reset_mm_cache",
    "/reset_encoder_cache",
    "/server_info",
    "/update_weights",
];

/// A group of engines on one device. Only those that fit are awake.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EngineGroupConfig {
    /// Memory of the device for engines, in bytes. Either this or `awake`.
    #[serde(default, deserialize_with = "size_of_some")]
    pub memory: Option<u64>,
    /// Number of engines that may be awake.
    #[serde(default)]
    pub awake: Option<u32>,
    /// Level of sleep: 1 keeps weights in the host's memory, 2 reads them again.
    #[serde(default = "usual_level")]
    pub sleep_level: u8,
    /// Longest time of an order to sleep.
    #[serde(
        rename = "sleep",
        with = "duration::milliseconds",
        default = "usual_sleep_ms"
    )]
    pub sleep_ms: u64,
    /// Longest time of a wake.
    #[serde(
        rename = "wake",
        with = "duration::milliseconds",
        default = "usual_wake_ms"
    )]
    pub wake_ms: u64,
    /// Least time awake.
    #[serde(
        rename = "residence",
        with = "duration::milliseconds",
        default = "usual_residence_ms"
    )]
    pub residence_ms: u64,
    /// Wait of a request after which a busy engine makes room for it.
    #[serde(
        rename = "turn",
        with = "duration::milliseconds",
        default = "usual_turn_ms"
    )]
    pub turn_ms: u64,
    /// Longest time for requests to end before they are cut off.
    #[serde(
        rename = "drain",
        with = "duration::milliseconds",
        default = "usual_drain_ms"
    )]
    pub drain_ms: u64,
    /// Time without requests after which an engine sleeps; never if it is left out.
    #[serde(rename = "idle", with = "fields::optional_ms", default)]
    pub idle_ms: Option<u64>,
    /// Maximum number of waiting requests of all engines.
    #[serde(default = "super::usual_queue")]
    pub queue: usize,
    /// Longest time for which a request waits.
    #[serde(
        rename = "wait",
        with = "duration::milliseconds",
        default = "usual_wait_ms"
    )]
    pub wait_ms: u64,
    /// Interval of the questions to each engine for its state.
    #[serde(
        rename = "poll",
        with = "duration::milliseconds",
        default = "usual_poll_ms"
    )]
    pub poll_ms: u64,
    /// Objective of the latency, for metrics.
    #[serde(
        rename = "slo",
        with = "duration::milliseconds",
        default = "super::usual_wait_ms"
    )]
    pub slo_ms: u64,
    /// Paths that the engines serve.
    #[serde(default, deserialize_with = "fields::paths")]
    pub paths: ServedPaths,
    /// Engines by name.
    pub engine: BTreeMap<String, EngineConfig>,
}

/// An engine of a group.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct EngineConfig {
    /// Address of its server.
    pub address: SocketAddr,
    /// Names of its model that the engine knows; the first one is the model's own.
    pub models: Vec<String>,
    /// Names of its adapters.
    #[serde(default)]
    pub adapters: Vec<String>,
    /// Device memory that it takes while it is awake, with `memory` of the group.
    #[serde(default, deserialize_with = "size_of_some")]
    pub memory: Option<u64>,
    /// Device memory that it keeps while it sleeps.
    #[serde(default, deserialize_with = "size_of_some")]
    pub memory_asleep: Option<u64>,
    /// Maximum number of requests at a time.
    #[serde(default = "usual_requests")]
    pub requests: usize,
}

impl EngineGroupConfig {
    pub(super) fn check(&self, group: &str) -> Result<(), FieldProblem> {
        let field = |field: &str| format!("engine_group.{group}.{field}");
        let wrong = |of: &str, problem: String| Err(FieldProblem::new(field(of), problem));
        match (self.memory, self.awake) {
            (Some(memory), None) => within(&field("memory"), memory, MAX_MEMORY)?,
            (None, Some(awake)) => within(&field("awake"), awake.into(), MAX_ENGINES as u64)?,
            (Some(_), Some(_)) => {
                let problem = "found `memory` as well, expected one of them; leave out one";
                return wrong("awake", problem.to_owned());
            }
            (None, None) => {
                let problem = "found neither `memory` nor `awake`; set the device's memory for engines, e.g. memory = \"80GiB\", or awake = 1";
                return wrong("memory", problem.to_owned());
            }
        }
        if !matches!(self.sleep_level, 1 | 2) {
            let problem = format!("found {}, expected 1 or 2", self.sleep_level);
            return wrong("sleep_level", problem);
        }
        for (name, ms) in [
            ("sleep", self.sleep_ms),
            ("wake", self.wake_ms),
            ("wait", self.wait_ms),
        ] {
            least(&field(name), ms, 1)?;
        }
        least(&field("poll"), self.poll_ms, 100)?;
        within(&field("queue"), self.queue as u64, MAX_QUEUE as u64)?;
        fields::slo(&field("slo"), self.slo_ms)?;
        let count = self.engine.len();
        if !(1..=MAX_ENGINES).contains(&count) {
            let problem = format!("found {count} engines, expected 1 to {MAX_ENGINES}");
            return wrong("engine", problem);
        }
        let mut addresses = HashSet::new();
        for (name, engine) in &self.engine {
            let field = |of: &str| field(&format!("engine.{name}.{of}"));
            fields::listed_once(&field("address"), engine.address, &mut addresses)?;
            engine.check(field, self.memory)?;
        }
        self.check_room(group)
    }

    /// Checks that each engine can be awake while the others sleep.
    fn check_room(&self, group: &str) -> Result<(), FieldProblem> {
        let Some(memory) = self.memory else {
            return Ok(());
        };
        let asleep = |name: &str| {
            let others = self.engine.iter().filter(|(other, _)| *other != name);
            let bytes = others.map(|(_, of)| of.memory_asleep.unwrap_or(0));
            bytes.fold(0, u64::saturating_add)
        };
        for (name, engine) in &self.engine {
            let others = asleep(name);
            let needed = engine.memory.unwrap_or(0).saturating_add(others);
            if needed > memory {
                let field = format!("engine_group.{group}.engine.{name}.memory");
                let problem = format!(
                    "with {others} bytes of the other engines asleep, found {needed} bytes, expected {memory} at most, the group's `memory`; raise it, or lower the engine's"
                );
                return Err(FieldProblem::new(field, problem));
            }
        }
        Ok(())
    }

    pub(crate) fn settings(&self) -> GroupSettings {
        let ms = Duration::from_millis;
        GroupSettings {
            rules: GroupRules {
                capacity: self.memory.or(self.awake.map(u64::from)).unwrap_or(0),
                queue: self.queue,
                residence_us: micros(ms(self.residence_ms)),
                turn_us: micros(ms(self.turn_ms)),
                drain_us: micros(ms(self.drain_ms)),
                cut_us: micros(CUT),
                idle_us: self.idle_ms.map(|idle_ms| micros(ms(idle_ms))),
            },
            level: if self.sleep_level == 2 {
                SleepLevel::Two
            } else {
                SleepLevel::One
            },
            sleep: ms(self.sleep_ms),
            wake: ms(self.wake_ms),
            poll: ms(self.poll_ms),
            wait: ms(self.wait_ms),
            slo: ms(self.slo_ms),
            is_count: self.memory.is_none(),
        }
    }

    /// Paths that clients reach: those of the file without the ones that control an engine.
    pub(crate) fn served_paths(&self) -> ServedPaths {
        self.paths.without(&CONTROL)
    }

    pub(crate) fn engines(&self) -> Vec<EngineSettings> {
        let engines = self.engine.iter().map(|(name, of)| EngineSettings {
            name: name.clone(),
            address: of.address,
            models: of.models.clone(),
            adapters: of.adapters.clone(),
            rules: EngineRules {
                awake: of.memory.unwrap_or(1),
                asleep: of.memory_asleep.unwrap_or(0),
                requests: of.requests,
            },
        });
        engines.collect()
    }
}

impl EngineConfig {
    fn check(
        &self,
        field: impl Fn(&str) -> String,
        device: Option<u64>,
    ) -> Result<(), FieldProblem> {
        let wrong = |of: &str, problem: String| Err(FieldProblem::new(field(of), problem));
        if self.models.is_empty() {
            let problem =
                "found no name, expected the model's name at the engine, e.g. [\"Qwen/Qwen3-8B\"]";
            return wrong("models", problem.to_owned());
        }
        for (of, names) in [("models", &self.models), ("adapters", &self.adapters)] {
            if names.len() > MAX_NAMES {
                let problem = format!("found {} names, expected {MAX_NAMES} at most", names.len());
                return wrong(of, problem);
            }
            for (at, name) in names.iter().enumerate() {
                let is_text = !name.is_empty() && !name.chars().any(char::is_control);
                if !is_text || name.len() > MAX_NAME {
                    let problem = format!(
                        "found {name:?}, expected 1 to {MAX_NAME} bytes without control characters"
                    );
                    return wrong(&format!("{of}[{at}]"), problem);
                }
            }
        }
        least(&field("requests"), self.requests as u64, 1)?;
        match (device, self.memory) {
            (Some(_), None) => {
                let problem = "missing: the group has `memory`; set the device memory that the engine takes awake, or `awake` of the group";
                return wrong("memory", problem.to_owned());
            }
            (Some(_), Some(memory)) => least(&field("memory"), memory, 1)?,
            (None, Some(_)) => {
                let problem = "the group has `awake`, which counts engines; leave out `memory`, or set that of the group";
                return wrong("memory", problem.to_owned());
            }
            (None, None) if self.memory_asleep.is_some() => {
                let problem =
                    "the group has `awake`, which counts engines; leave out `memory_asleep`";
                return wrong("memory_asleep", problem.to_owned());
            }
            (None, None) => {}
        }
        let asleep = self.memory_asleep.unwrap_or(0);
        if self.memory.is_some_and(|memory| asleep > memory) {
            let most = self.memory.unwrap_or(0);
            let problem = format!("found {asleep} bytes, expected {most} at most, `memory`");
            return wrong("memory_asleep", problem);
        }
        Ok(())
    }
}

/// Checks that no model has two engines.
pub(super) fn check_names(
    groups: &BTreeMap<String, EngineGroupConfig>,
) -> Result<(), FieldProblem> {
    let mut known: BTreeMap<&str, &str> = BTreeMap::new();
    for (group, of) in groups {
        for (engine, of) in &of.engine {
            for (field, names) in [("models", &of.models), ("adapters", &of.adapters)] {
                for (at, name) in names.iter().enumerate() {
                    if let Some(before) = known.insert(name, engine) {
                        let field = format!("engine_group.{group}.engine.{engine}.{field}[{at}]");
                        let problem = format!(
                            "found {name:?}, which is a model of engine {before} as well; list it once"
                        );
                        return Err(FieldProblem::new(field, problem));
                    }
                }
            }
        }
    }
    Ok(())
}

fn within(field: &str, found: u64, most: u64) -> Result<(), FieldProblem> {
    if (1..=most).contains(&found) {
        return Ok(());
    }
    let problem = format!("found {found}, expected 1 to {most}");
    Err(FieldProblem::new(field, problem))
}

fn size_of_some<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    size::deserialize(from).map(Some)
}

const fn usual_level() -> u8 {
    1
}

const fn usual_sleep_ms() -> u64 {
    60_000
}

const fn usual_wake_ms() -> u64 {
    120_000
}

const fn usual_residence_ms() -> u64 {
    2_000
}

const fn usual_turn_ms() -> u64 {
    10_000
}

const fn usual_drain_ms() -> u64 {
    60_000
}

const fn usual_wait_ms() -> u64 {
    180_000
}

const fn usual_poll_ms() -> u64 {
    2_000
}

const fn usual_requests() -> usize {
    256
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    const FILE: &str = r#"
[engine_group.gpu]
memory = "80GiB"
idle = "10m"

[engine_group.gpu.engine.qwen]
address = "127.0.0.1:8001"
models = ["Qwen/Qwen3-8B", "qwen"]
adapters = ["sql"]
memory = "30GiB"
memory_asleep = "1GiB"

[engine_group.gpu.engine.llama]
address = "127.0.0.1:8002"
models = ["llama"]
memory = "70GiB"
"#;

    #[test]
    fn a_group_has_engines_with_models_and_memory() {
        let config = Config::parse(FILE).unwrap();
        let group = &config.engine_group["gpu"];
        let rules = group.settings().rules;
        assert_eq!(
            (rules.capacity, rules.idle_us),
            (80 << 30, Some(600_000_000))
        );
        let engines = group.engines();
        assert_eq!(engines[1].models, ["Qwen/Qwen3-8B", "qwen"]);
        let memory = engines[1].rules;
        assert_eq!((memory.awake, memory.asleep), (30 << 30, 1 << 30));
    }

    #[test]
    fn the_paths_that_control_an_engine_are_never_served() {
        let with = |paths: &str| FILE.replace("idle =", &format!("paths = {paths}\nidle ="));
        for paths in ["[\"/**\"]", "[\"POST /sleep\", \"openai\"]"] {
            let config = Config::parse(&with(paths)).unwrap();
            let served = config.engine_group["gpu"].served_paths();
            for path in [
                "/sleep",
                "/sleep/",
                "/wake_up",
                "/is_sleeping",
                "/collective_rpc",
            ] {
                assert!(!served.serve("POST", path), "{path}");
            }
            assert!(served.serve("POST", "/v1/completions"));
        }
    }

    #[test]
    fn mistakes_are_named_with_their_place_and_remedy() {
        for (from, to, says) in [
            (
                "memory = \"80GiB\"\n",
                "",
                "`engine_group.gpu.memory`: found neither `memory` nor `awake`",
            ),
            (
                "idle = \"10m\"",
                "awake = 1",
                "`engine_group.gpu.awake`: found `memory` as well",
            ),
            (
                "memory = \"80GiB\"",
                "awake = 1",
                "`engine_group.gpu.engine.llama.memory`: the group has `awake`",
            ),
            (
                "idle = \"10m\"",
                "sleep_level = 3",
                "`engine_group.gpu.sleep_level`: found 3, expected 1 or 2",
            ),
            (
                "idle = \"10m\"",
                "poll = 1",
                "`engine_group.gpu.poll`: found 1, expected at least 100",
            ),
            (
                "idle = \"10m\"",
                "queue = 0",
                "`engine_group.gpu.queue`: found 0, expected 1 to 1000000",
            ),
            (
                "idle = \"10m\"",
                "wake = 0",
                "`engine_group.gpu.wake`: found 0",
            ),
            ("idle =", "idel =", "unknown field `idel`"),
            (
                "[\"llama\"]",
                "[]",
                "`engine_group.gpu.engine.llama.models`: found no name",
            ),
            (
                "[\"llama\"]",
                "[\"a\\u0007\"]",
                "llama.models[0]`: found \"a\\u{7}\", expected 1 to 256 bytes",
            ),
            (
                "[\"llama\"]",
                "[\"sql\"]",
                "`engine_group.gpu.engine.qwen.adapters[0]`: found \"sql\", which is a model of engine llama as well",
            ),
            (
                "8002",
                "8001",
                "`engine_group.gpu.engine.qwen.address`: found 127.0.0.1:8001 again",
            ),
            (
                "\"70GiB\"",
                "\"80GiB\"",
                "`engine_group.gpu.engine.llama.memory`: with 1073741824 bytes of the other engines asleep",
            ),
            (
                "memory = \"70GiB\"",
                "",
                "`engine_group.gpu.engine.llama.memory`: missing",
            ),
            (
                "\"1GiB\"",
                "\"31GiB\"",
                "`engine_group.gpu.engine.qwen.memory_asleep`: found",
            ),
            (
                "engine.llama]",
                "engine.\"a b\"]",
                "`name of an engine`: found \"a b\"",
            ),
            (
                "[engine_group.gpu]",
                "[function.llama]\nslo = 1\n[engine_group.gpu]",
                "`engine_group.gpu.engine.llama`: the function is in the file itself as well",
            ),
        ] {
            let error = Config::parse(&FILE.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
        }
    }
}
