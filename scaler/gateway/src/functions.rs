//! Functions and pools of the configuration file.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{Config, EngineGroupConfig, FunctionConfig, GpuPoolConfig, PolicyConfig};
use crate::engines::{EngineMetrics, SleepingGroup};
use crate::function::{Access, Function};
use crate::function_name::FunctionName;
use crate::gpu::{GpuPool, Member, PageMemory};
use crate::routes::{Route, Routes};

/// Functions of the file. They stay the same ones when the file changes, with all their requests.
#[derive(Debug)]
pub(crate) struct Functions {
    functions: BTreeMap<String, Arc<Function>>,
    pools: BTreeMap<String, KnownPool>,
    groups: BTreeMap<String, KnownGroup>,
    /// Memory for pages of executors.
    pages: PageMemory,
    engine_metrics: EngineMetrics,
}

/// A group of engines. It stays as it is until the next start.
#[derive(Debug)]
struct KnownGroup {
    group: Arc<SleepingGroup>,
    of: EngineGroupConfig,
    routes: Vec<Route>,
}

#[derive(Debug)]
struct KnownPool {
    pool: Arc<GpuPool>,
    /// Settings that stay until the next start.
    policy: PolicyConfig,
    /// Numbers of functions in the pool: the same for the life of the pool.
    numbers: BTreeMap<String, u32>,
}

impl Functions {
    /// Creates an empty set, with this memory for pages of executors, and these metrics of engines.
    pub(crate) const fn new(pages: PageMemory, engine_metrics: EngineMetrics) -> Self {
        Self {
            functions: BTreeMap::new(),
            pools: BTreeMap::new(),
            groups: BTreeMap::new(),
            pages,
            engine_metrics,
        }
    }

    /// Takes a configuration, and returns its routes.
    pub(crate) fn update(&mut self, config: &Config) -> Arc<Routes> {
        self.functions
            .retain(|name, _| config.function.contains_key(name));
        self.pools
            .retain(|name, _| config.gpu_pool.contains_key(name));
        let mut routes = Vec::new();
        for (name, of) in &config.function {
            routes.extend(self.with_instances(name, of));
        }
        let mut pools = Vec::new();
        for (name, of) in &config.gpu_pool {
            let known = self
                .pools
                .entry(name.clone())
                .or_insert_with(|| KnownPool::new(name, of, &self.pages));
            routes.extend(known.update(name, of));
            pools.push(Arc::clone(&known.pool));
        }
        self.groups
            .retain(|name, _| config.engine_group.contains_key(name));
        for (name, of) in &config.engine_group {
            let known = self
                .groups
                .entry(name.clone())
                .or_insert_with(|| KnownGroup::new(name, of, &self.engine_metrics));
            if known.of != *of {
                tracing::warn!(
                    group = name,
                    "a group of engines stays as it is until the next start"
                );
            }
            routes.extend(known.routes.iter().cloned());
        }
        let groups = self.groups.values().map(|known| Arc::clone(&known.group));
        let routes = Routes::new(routes).with_pools(pools);
        Arc::new(routes.with_engine_groups(groups.collect()))
    }

    fn with_instances(&mut self, name: &str, of: &FunctionConfig) -> Option<Route> {
        let rules = of.rules()?;
        let function = self
            .functions
            .entry(name.to_owned())
            .or_insert_with(|| Function::new(of_file(name), rules));
        function.set_rules(rules);
        function.set_access(Access::by_paths(of.paths.clone()));
        function.set_instances(&of.instances());
        Some(route(Arc::clone(function), &of.hosts, &of.models))
    }
}

impl KnownGroup {
    fn new(name: &str, of: &EngineGroupConfig, metrics: &EngineMetrics) -> Self {
        let paths = of.served_paths();
        let (settings, engines) = (of.settings(), of.engines());
        let group = SleepingGroup::new(name, settings, paths.clone(), engines, metrics.clone());
        let routes = group.members().map(|(name, models, member)| {
            let function = Function::on_engine(of_file(name), member);
            function.set_access(Access::by_paths(paths.clone()));
            Route {
                openai_models: models,
                ..route(function, &[], &[])
            }
        });
        let routes = routes.collect();
        Self {
            group,
            of: of.clone(),
            routes,
        }
    }
}

impl KnownPool {
    fn new(name: &str, of: &GpuPoolConfig, pages: &PageMemory) -> Self {
        let policy = of.policy.policy();
        Self {
            pool: GpuPool::new(name, policy, of.queue, of.poll(), pages.clone()),
            policy: of.policy.clone(),
            numbers: BTreeMap::new(),
        }
    }

    /// Takes executors and functions. Functions are made anew: their requests are the pool's.
    fn update(&mut self, name: &str, of: &GpuPoolConfig) -> Vec<Route> {
        if self.policy != of.policy {
            tracing::warn!(
                pool = name,
                "the policy of a pool stays until the next start"
            );
        }
        let functions = of.function.iter().map(|(name, of)| {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(name.clone()).or_insert(next);
            let member = Member::new(&self.pool, number, of.rules(name));
            let function = Function::on_gpus(of_file(name), member);
            function.set_access(Access::by_paths(of.paths.clone()));
            route(function, &of.hosts, &of.models)
        });
        let routes = functions.collect();
        self.pool.set_executors(&of.addresses());
        routes
    }
}

fn of_file(name: &str) -> FunctionName {
    FunctionName {
        namespace: String::new(),
        name: name.to_owned(),
    }
}

fn route(function: Arc<Function>, hosts: &[String], models: &[String]) -> Route {
    Route {
        function,
        hosts: hosts.iter().map(|host| host.to_ascii_lowercase()).collect(),
        models: models.to_vec(),
        openai_models: Vec::new(),
    }
}
