//! Routes: the function of a request, by path and host.
//!
//! 1. `/functions/NAME/...`, or `/functions/NAMESPACE/NAME/...` in a cluster: the rest of the path
//!    goes to the instance. OpenAI's clients take it as their base URL.
//! 2. The host: one that the function names, or `NAME.NAMESPACE` with anything behind it in a
//!    cluster.
//! 3. `/v2/models/MODEL/...`, or the model in a message of gRPC: the function that names the model.
//! 4. The `model` in a body of OpenAI's API: the engine of a group that serves it.

use std::collections::BTreeMap;
use std::sync::Arc;

use hyper::http::uri::PathAndQuery;

use crate::engines::SleepingGroup;
use crate::function::Function;
use crate::function_name::FunctionName;
use crate::gpu::GpuPool;

const PREFIX: &str = "/functions/";
const MODELS: &str = "/v2/models/";

/// A function with the names that lead to it.
#[derive(Clone, Debug)]
pub struct Route {
    /// The function.
    pub function: Arc<Function>,
    /// Hosts, in lower case, without ports.
    pub hosts: Vec<String>,
    /// Models of the Open Inference Protocol.
    pub models: Vec<String>,
    /// Models that bodies of OpenAI's API name.
    pub openai_models: Vec<String>,
}

/// All routes.
#[derive(Debug, Default)]
pub struct Routes {
    functions: BTreeMap<FunctionName, Arc<Function>>,
    hosts: BTreeMap<String, Arc<Function>>,
    models: BTreeMap<String, Arc<Function>>,
    openai_models: BTreeMap<String, Arc<Function>>,
    pools: Vec<Arc<GpuPool>>,
    engine_groups: Vec<Arc<SleepingGroup>>,
}

/// The function of a request, and the path that its instance gets, if that is another one.
#[derive(Debug)]
pub struct Target {
    /// The function.
    pub function: Arc<Function>,
    /// Path for the instance; `None` for that of the request.
    pub path: Option<PathAndQuery>,
}

impl Routes {
    /// Creates routes. Of two functions with the same host or model, the first gets it.
    pub fn new(routes: impl IntoIterator<Item = Route>) -> Self {
        let mut all = Self::default();
        for route in routes {
            for host in route.hosts {
                all.hosts
                    .entry(host)
                    .or_insert_with(|| Arc::clone(&route.function));
            }
            for model in route.models {
                all.models
                    .entry(model)
                    .or_insert_with(|| Arc::clone(&route.function));
            }
            for model in route.openai_models {
                all.openai_models
                    .entry(model)
                    .or_insert_with(|| Arc::clone(&route.function));
            }
            all.functions
                .insert(route.function.name().clone(), route.function);
        }
        all
    }

    /// Adds the pools of GPUs that serve some of the functions.
    pub(crate) fn with_pools(mut self, pools: Vec<Arc<GpuPool>>) -> Self {
        self.pools = pools;
        self
    }

    /// Pools of GPUs.
    pub(crate) fn pools(&self) -> &[Arc<GpuPool>] {
        &self.pools
    }

    /// Adds the groups of engines that serve some of the functions.
    pub(crate) fn with_engine_groups(mut self, groups: Vec<Arc<SleepingGroup>>) -> Self {
        self.engine_groups = groups;
        self
    }

    /// Groups of engines that sleep.
    pub(crate) fn engine_groups(&self) -> &[Arc<SleepingGroup>] {
        &self.engine_groups
    }

    /// Returns the engine that serves this model.
    pub(crate) fn find_openai_model(&self, model: &str) -> Option<Target> {
        Some(Target {
            function: Arc::clone(self.openai_models.get(model)?),
            path: None,
        })
    }

    /// All functions.
    pub fn functions(&self) -> impl Iterator<Item = &Arc<Function>> {
        self.functions.values()
    }

    /// Returns true if there is a function of that name.
    pub(crate) fn has(&self, function: &FunctionName) -> bool {
        self.functions.contains_key(function)
    }

    /// Returns the function that names this model.
    pub(crate) fn find_model(&self, model: &str) -> Option<Target> {
        Some(Target {
            function: Arc::clone(self.models.get(model)?),
            path: None,
        })
    }

    /// Returns the function of a request with this path and host.
    pub fn find(&self, path: &PathAndQuery, host: Option<&str>) -> Option<Target> {
        if let Some(rest) = path.as_str().strip_prefix(PREFIX) {
            return self.by_prefix(rest);
        }
        let function = host
            .and_then(|host| self.by_host(host))
            .or_else(|| self.by_model(path.path()))?;
        Some(Target {
            function: Arc::clone(function),
            path: None,
        })
    }

    fn by_prefix(&self, rest: &str) -> Option<Target> {
        let find = |namespace: &str, name: &str| {
            self.functions.get(&FunctionName {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        let (first, after) = split(rest);
        let (function, after) = if let Some(function) = find("", first) {
            (function, after)
        } else {
            let (second, after) = split(after.strip_prefix('/')?);
            (find(first, second)?, after)
        };
        let path = if after.starts_with('/') {
            PathAndQuery::try_from(after)
        } else {
            PathAndQuery::try_from(format!("/{after}"))
        };
        Some(Target {
            function: Arc::clone(function),
            path: Some(path.ok()?),
        })
    }

    fn by_host(&self, host: &str) -> Option<&Arc<Function>> {
        let host = without_port(host).to_ascii_lowercase();
        if let Some(function) = self.hosts.get(&host) {
            return Some(function);
        }
        let mut labels = host.split('.');
        let (name, namespace) = (labels.next()?, labels.next()?);
        self.functions.get(&FunctionName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }

    fn by_model(&self, path: &str) -> Option<&Arc<Function>> {
        let (model, _) = split(path.strip_prefix(MODELS)?);
        self.models.get(model)
    }
}

/// Splits before the first `/` or `?`.
fn split(text: &str) -> (&str, &str) {
    let at = text.find(['/', '?']).unwrap_or(text.len());
    text.split_at(at)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // A colon within brackets is part of an IPv6 address.
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_scaler_core::Slo;
    use tetris_scaler_dispatch::Rules;

    fn route(namespace: &str, name: &str, hosts: &[&str], models: &[&str]) -> Route {
        let owned = |all: &[&str]| all.iter().map(|&default| default.to_owned()).collect();
        let name = FunctionName {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Route {
            function: Function::new(name, Rules::new(Slo::try_from_us(1).unwrap())),
            hosts: owned(hosts),
            models: owned(models),
            openai_models: Vec::new(),
        }
    }

    fn routes() -> Routes {
        Routes::new([
            route("", "embed", &["embed.example.com"], &["minilm"]),
            route("", "chat", &[], &["minilm", "llama"]),
            route("search", "rank", &[], &[]),
        ])
    }

    fn found(path: &str, host: Option<&str>) -> Option<(String, Option<String>)> {
        let path = PathAndQuery::try_from(path).unwrap();
        let target = routes().find(&path, host)?;
        let path = target.path.map(|path| path.as_str().to_owned());
        Some((target.function.name().to_string(), path))
    }

    #[test]
    fn a_prefix_names_the_function_and_the_rest_goes_to_the_instance() {
        for (path, expected, rest) in [
            (
                "/functions/chat/v1/chat/completions?x=1",
                "chat",
                "/v1/chat/completions?x=1",
            ),
            (
                "/functions/search/rank/v2/models/m/infer",
                "search/rank",
                "/v2/models/m/infer",
            ),
            ("/functions/chat", "chat", "/"),
            ("/functions/chat?x=1", "chat", "/?x=1"),
        ] {
            let expected = (expected.to_owned(), Some(rest.to_owned()));
            assert_eq!(
                found(path, Some("embed.example.com")),
                Some(expected),
                "{path}"
            );
        }
        for path in [
            "/functions/",
            "/functions/other/x",
            "/functions/search/other/v1",
            "/functions/search",
        ] {
            assert_eq!(found(path, None), None, "{path}");
        }
    }

    #[test]
    fn hosts_count_before_models_and_ports_and_case_do_not() {
        let at = |path, host| found(path, Some(host)).map(|(name, _)| name);
        assert_eq!(at("/x", "Embed.Example.com:80").unwrap(), "embed");
        assert_eq!(
            at("/x", "rank.search.svc.cluster.local").unwrap(),
            "search/rank"
        );
        assert_eq!(
            at("/v2/models/llama/infer", "embed.example.com").unwrap(),
            "embed"
        );
        assert_eq!(at("/v2/models/llama/infer", "[::1]:80").unwrap(), "chat");
        assert_eq!(
            at("/v2/models/minilm", "localhost").unwrap(),
            "embed",
            "the first that names it"
        );
        assert_eq!(at("/v2/models/other/infer", "localhost"), None);
        assert_eq!(at("/x", "embed"), None);
    }
}
