//! A cluster that executes decisions, with arbitrary timing and scheduling.

use std::collections::{BTreeMap, BTreeSet};

use tetris_scaler_core::{
    Decision, FunctionView, InstanceView, Inventory, NodeView, Phase, Rate, Settings, View, decide,
};
use tetris_store_layout::ObjectId;

#[derive(Clone, Debug)]
pub struct Pod {
    pub name: String,
    pub function: usize,
    pub configuration: usize,
    pub node: Option<usize>,
    pub ready: bool,
    pub retiring: bool,
    /// Deletion cost.
    pub rank: usize,
    pub load: u64,
}

/// Functions, nodes, Deployments and pods.
#[derive(Clone, Debug)]
pub struct World {
    pub functions: Vec<FunctionView>,
    pub nodes: Vec<NodeView>,
    pub inventory: Inventory,
    /// Number of replicas by function and configuration.
    pub deployments: BTreeMap<(usize, usize), u32>,
    pub pods: Vec<Pod>,
    serial: usize,
}

impl World {
    pub fn new(functions: Vec<FunctionView>, nodes: Vec<NodeView>) -> Self {
        Self {
            functions,
            nodes,
            inventory: Inventory::default(),
            deployments: BTreeMap::new(),
            pods: Vec::new(),
            serial: 0,
        }
    }

    /// Returns the pods, and the instances that Deployments lack.
    pub fn instances(&self) -> Vec<InstanceView> {
        let mut leaving = BTreeSet::new();
        let mut asked = Vec::new();
        for (&(function, configuration), &replicas) in &self.deployments {
            leaving.extend(self.surplus(function, configuration));
            let live = self.live(function, configuration).count();
            asked.extend((live..replicas as usize).map(|number| InstanceView {
                name: format!("asked-{function}-{configuration}-{number:03}"),
                function,
                configuration: Some(configuration),
                node: None,
                gpu: None,
                phase: Phase::Starting,
                load: None,
                retiring: false,
            }));
        }
        let pods = self.pods.iter();
        let pods = pods.map(|pod| pod.view(leaving.contains(&pod.name)));
        pods.chain(asked).collect()
    }

    /// Returns the pods that a controller would delete: those that are not ready first, then by
    /// deletion cost.
    fn surplus(&self, function: usize, configuration: usize) -> BTreeSet<String> {
        let replicas = self.deployments.get(&(function, configuration));
        let replicas = replicas.copied().unwrap_or(0) as usize;
        let mut order: Vec<(bool, usize, String)> = self
            .live(function, configuration)
            .map(|pod| (pod.ready, pod.rank, pod.name.clone()))
            .collect();
        order.sort();
        let surplus = order.len().saturating_sub(replicas);
        order
            .into_iter()
            .take(surplus)
            .map(|order| order.2)
            .collect()
    }

    fn live(&self, function: usize, configuration: usize) -> impl Iterator<Item = &Pod> {
        let of = move |pod: &&Pod| (pod.function, pod.configuration) == (function, configuration);
        self.pods.iter().filter(of)
    }

    pub fn decide(&self, instances: &[InstanceView], settings: &Settings) -> Decision {
        let view = View {
            functions: &self.functions,
            instances,
            nodes: &self.nodes,
            inventory: &self.inventory,
        };
        decide(&view, settings)
    }

    /// Executes the decision. Returns true if anything changes.
    pub fn carry_out(&mut self, decision: &Decision) -> bool {
        let before = (self.deployments.clone(), self.marks());
        for (function, entry) in decision.functions.iter().enumerate() {
            for (&configuration, &replicas) in &entry.replicas {
                self.deployments.insert((function, configuration), replicas);
            }
            for (rank, &at) in entry.ranking.iter().enumerate() {
                // Missing instances have no pods.
                if let Some(pod) = self.pods.get_mut(at) {
                    pod.rank = rank;
                    pod.retiring = entry.retiring.contains(&at);
                }
            }
        }
        before != (self.deployments.clone(), self.marks())
    }

    fn marks(&self) -> Vec<bool> {
        self.pods.iter().map(|pod| pod.retiring).collect()
    }

    /// Acts as the controllers: deletes surplus pods, those that are not ready first, then by
    /// deletion cost, and creates missing ones.
    pub fn control(&mut self) {
        for ((function, configuration), replicas) in self.deployments.clone() {
            let gone = self.surplus(function, configuration);
            self.pods.retain(|pod| !gone.contains(&pod.name));
            let missing =
                (replicas as usize).saturating_sub(self.live(function, configuration).count());
            for _ in 0..missing {
                self.serial += 1;
                self.pods.push(Pod {
                    name: format!("pod-{:05}", self.serial),
                    function,
                    configuration,
                    node: None,
                    ready: false,
                    retiring: false,
                    rank: usize::MAX,
                    load: 0,
                });
            }
        }
    }

    /// Schedules a pod to a node with room, selected by `pick`.
    pub fn schedule(&mut self, at: usize, pick: usize) {
        let fitting: Vec<usize> = (0..self.nodes.len())
            .filter(|&node| self.fits(at, node))
            .collect();
        if self.pods[at].node.is_none() && !fitting.is_empty() {
            self.pods[at].node = Some(fitting[pick % fitting.len()]);
        }
    }

    fn fits(&self, at: usize, node: usize) -> bool {
        let needs = |pod: &Pod| {
            let configuration =
                self.functions[pod.function].model.profile.configurations()[pod.configuration];
            (configuration.cpu_millis(), configuration.own_bytes())
        };
        let here = self.pods.iter().filter(|pod| pod.node == Some(node));
        let used = here
            .map(needs)
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let (own, free) = (needs(&self.pods[at]), self.nodes[node].free);
        used.0 + own.0 <= free.cpu_millis && used.1 + own.1 <= free.memory_bytes
    }

    /// Makes a scheduled pod ready, and adds its tensors to the node.
    pub fn finish_start(&mut self, at: usize) {
        let Some(node) = self.pods[at].node else {
            return;
        };
        self.pods[at].ready = true;
        let hosted = self
            .pods
            .iter()
            .filter(|pod| pod.node == Some(node) && pod.ready);
        let ids: Vec<ObjectId> = hosted
            .flat_map(|pod| self.functions[pod.function].model.tensors.objects())
            .map(|(id, _)| *id)
            .collect();
        self.inventory
            .set_node(&self.nodes[node].name, &ids)
            .unwrap();
    }

    /// Returns the rate that ready instances carry within the objective.
    pub fn ready_rate(&self, function: usize) -> Rate {
        let model = &self.functions[function].model;
        let ready = self
            .pods
            .iter()
            .filter(|pod| pod.function == function && pod.ready);
        let all = ready.map(|pod| model.profile.configurations()[pod.configuration]);
        all.filter(|pod| pod.meets(model.slo))
            .map(|pod| pod.rate())
            .sum()
    }
}

impl Pod {
    fn view(&self, leaving: bool) -> InstanceView {
        InstanceView {
            name: self.name.clone(),
            function: self.function,
            configuration: Some(self.configuration),
            node: self.node,
            gpu: None,
            phase: match (leaving, self.ready) {
                (true, _) => Phase::Leaving,
                (false, true) => Phase::Ready,
                (false, false) => Phase::Starting,
            },
            load: Some(Rate::from_rps(self.load)),
            retiring: self.retiring,
        }
    }
}
