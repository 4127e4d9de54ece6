//! A placement problem in numbers.

use std::collections::{BTreeMap, BTreeSet};

use super::atoms::{Atom, OnGpu, atoms};
use super::input::{Demand, Hosted, MAX_MODELS, Node, PlacementProblem};
use super::outcome::PlacementError;
use super::room::Room;
use crate::configuration::Configuration;
use crate::cost::{MemoryTerm, Weights};
use crate::dts::dts;
use crate::exact::{Solution, solve};
use crate::gpu::GpuNeeds;
use crate::numbered::Numbered as _;
use crate::score::Resources;

/// A configuration that a model may run in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    /// Index in the model's profile.
    pub(super) configuration: usize,
    pub(super) needs: Resources,
    /// GPU on the node, for a configuration that needs one.
    pub(super) gpu: Option<ChosenGpu>,
    /// Rate in millionths of a request per second; at least 1.
    pub(super) rate: u64,
    /// Cost `own + alpha cpu`, in bytes.
    pub(super) price: u64,
}

/// A GPU of a node, and an instance's needs there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ChosenGpu {
    /// Index of the GPU on the node. A node without that GPU, or with one of another type, does not
    /// take the instance.
    pub(super) at: usize,
    pub(super) needs: GpuNeeds,
}

/// A kind of instance: a model, a node, and an index into the model's choices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Slot {
    pub(super) model: usize,
    pub(super) node: usize,
    pub(super) choice: usize,
}

/// The constant data of a placement.
#[derive(Debug)]
pub(super) struct ProblemInstance<'a> {
    pub(super) problem: &'a PlacementProblem<'a>,
    weights: Vec<Weights>,
    /// Free resources by node.
    pub(super) free: Vec<Room>,
    /// Room for tensors by node and store, where a store has less than its node.
    pub(super) stores: StoreRooms,
    /// Choices by model.
    pub(super) choices: Vec<Vec<Choice>>,
    pub(super) atoms: Vec<Atom>,
    /// Indices into `atoms`, by model.
    pub(super) atoms_of: Vec<Vec<usize>>,
    /// Classes of equivalent nodes: the same free resources and missing tensors, and no instance. A
    /// node with running instances is its own class.
    pub(super) kinds: Vec<BTreeSet<usize>>,
    /// Index into `kinds`, by node.
    pub(super) kind_of: Vec<usize>,
    /// Running instances that may stay.
    pub(super) current: BTreeMap<Slot, u32>,
    /// Least cost of carrying the load regardless of room, by model.
    pub(super) cheapest: Vec<Solution>,
}

impl<'a> ProblemInstance<'a> {
    pub(super) fn new(problem: &'a PlacementProblem<'a>) -> Result<Self, PlacementError> {
        check(problem)?;
        let alphas = problem.demands.iter();
        let alphas = alphas.map(|demand| demand.alpha_bytes_per_millicore);
        let weights = alphas.map(|alpha| Weights::try_new(alpha, MemoryTerm::Own));
        let weights = weights.collect::<Result<Vec<_>, _>>()?;
        let mut atoms = atoms(problem)?;
        let mut free: Vec<Room> = problem.nodes.iter().map(Room::of).collect();
        let mut stores = store_rooms(problem);
        fix(problem, &mut atoms, &mut free, &mut stores);
        let solutions = problem
            .demands
            .iter()
            .zip(&weights)
            .map(|(demand, &weights)| cheapest(demand, weights));
        let cheapest = solutions.collect::<Result<Vec<_>, _>>()?;
        let models = 0..problem.demands.len();
        let choices: Vec<_> = models
            .clone()
            .zip(&weights)
            .map(|(model, &weights)| choices(problem, weights, model))
            .collect();
        let atoms_of = models.map(|model| {
            let with = atoms.iter().enumerate();
            let with = with.filter(|(_, atom)| atom.models.binary_search(&model).is_ok());
            with.map(|(at, _)| at).collect()
        });
        let (kinds, kind_of) = kinds(problem, &atoms, &free, &stores);
        Ok(Self {
            problem,
            kinds,
            kind_of,
            weights,
            free,
            stores,
            atoms_of: atoms_of.collect(),
            atoms,
            current: current(problem, &choices),
            choices,
            cheapest,
        })
    }

    pub(super) fn load(&self, model: usize) -> u64 {
        self.problem.demands.at(model).load.micro_rps()
    }

    /// Store of the model's tensors.
    pub(super) fn store(&self, model: usize) -> usize {
        self.problem.demands.at(model).store
    }

    /// Weights for private memory, with the model's alpha.
    pub(super) fn weights(&self, model: usize) -> Weights {
        *self.weights.at(model)
    }

    pub(super) fn choice(&self, slot: Slot) -> Choice {
        *self.choices.at(slot.model).at(slot.choice)
    }

    pub(super) fn name(&self, model: usize) -> String {
        self.problem.demands.at(model).name.clone()
    }
}

fn cheapest(demand: &Demand, weights: Weights) -> Result<Solution, PlacementError> {
    let solution = solve(&demand.profile, demand.slo, demand.load, weights);
    solution.map_err(|reason| PlacementError::SloTooTight {
        model: demand.name.clone(),
        reason,
    })
}

fn check(problem: &PlacementProblem<'_>) -> Result<(), PlacementError> {
    if problem.demands.len() > MAX_MODELS {
        let found = problem.demands.len();
        return Err(PlacementError::TooManyModels { found });
    }
    if problem.nodes.is_empty() {
        return Err(PlacementError::NoNodes);
    }
    let start = problem.start_cost_bytes;
    crate::error::FieldError::check(
        "start_cost_bytes",
        start,
        0,
        crate::limits::MAX_MEMORY_BYTES,
    )?;
    let mut running = problem.current.iter().enumerate();
    running.try_for_each(|(at, placed)| {
        known(problem, at, placed.model, placed.node)?;
        let profile = &problem.demands.at(placed.model).profile;
        let configurations = profile.configurations().len();
        in_range(at, ("configuration", placed.configuration, configurations))
    })?;
    let mut fixed = problem.fixed.iter().enumerate();
    fixed.try_for_each(|(at, hosted)| known(problem, at, hosted.model, hosted.node))
}

fn known(
    problem: &PlacementProblem<'_>,
    at: usize,
    model: usize,
    node: usize,
) -> Result<(), PlacementError> {
    in_range(at, ("model", model, problem.demands.len()))?;
    in_range(at, ("node", node, problem.nodes.len()))
}

fn in_range(
    at: usize,
    (field, index, count): (&'static str, usize, usize),
) -> Result<(), PlacementError> {
    if index < count {
        return Ok(());
    }
    Err(PlacementError::Unknown {
        at,
        field,
        index,
        count,
    })
}

/// Returns the configurations of a model that meet its objective and are worth considering: running
/// ones, the one that DTS takes, and those that no other dominates in CPU, private memory and rate.
fn choices(problem: &PlacementProblem<'_>, weights: Weights, model: usize) -> Vec<Choice> {
    let demand = problem.demands.at(model);
    // The published algorithm also weighs shared memory, and may select a dominated configuration.
    let whole = weights.counting(MemoryTerm::Whole);
    let published = dts(&demand.profile, demand.slo, demand.load, whole).unwrap_or_default();
    let stays = |configuration: usize| {
        let (mut runs, mut picks) = (problem.current.iter(), published.choices.iter());
        runs.any(|placed| placed.model == model && placed.configuration == configuration)
            || picks.any(|choice| choice.configuration == configuration)
    };
    let all: Vec<(usize, &Configuration)> = demand.profile.feasible(demand.slo).collect();
    let kept = all.iter().copied().filter(|&demand| {
        stays(demand.0)
            || !all
                .iter()
                .any(|&other| other.0 != demand.0 && beats(other, demand))
    });
    let all = kept.flat_map(|(configuration, demand)| {
        let gpus = gpus(problem, demand).into_iter();
        gpus.map(move |gpu| Choice {
            configuration,
            needs: Resources {
                cpu_millis: demand.cpu_millis(),
                memory_bytes: demand.own_bytes(),
            },
            gpu,
            rate: demand.rate().micro_rps().max(1),
            price: weights.of(demand),
        })
    });
    all.collect()
}

/// Returns the GPUs that instances of a configuration can have, by their index on a node: each index
/// at which some node has one of the type. Without any it is the first, which every node lacks.
fn gpus(problem: &PlacementProblem<'_>, one: &Configuration) -> Vec<Option<ChosenGpu>> {
    let Some(&needs) = one.gpu() else {
        return vec![None];
    };
    let of_node = |node: &Node| {
        let gpus = node.gpus.iter().enumerate();
        let of_type = gpus.filter(|(_, gpu)| gpu.kind == needs.kind);
        of_type.map(|(at, _)| at).collect::<Vec<_>>()
    };
    let mut indices: BTreeSet<usize> = problem.nodes.iter().flat_map(of_node).collect();
    if indices.is_empty() {
        indices.insert(0);
    }
    let gpus = indices.into_iter();
    gpus.map(|at| Some(ChosenGpu { at, needs })).collect()
}

/// Returns true if `a` is no worse than `b` in every respect; of equal ones, the first beats the
/// second.
fn beats((i, a): (usize, &Configuration), (j, b): (usize, &Configuration)) -> bool {
    let left = (a.cpu_millis(), a.own_bytes(), b.rate());
    let right = (b.cpu_millis(), b.own_bytes(), a.rate());
    let no_worse = left.0 <= right.0 && left.1 <= right.1 && left.2 <= right.2;
    let (of_gpu, same_gpu) = match (a.gpu(), b.gpu()) {
        (None, None) => (true, true),
        (Some(a), Some(b)) => (
            a.kind == b.kind && a.own_bytes <= b.own_bytes && a.share_permille <= b.share_permille,
            a == b,
        ),
        _ => (false, false),
    };
    no_worse && of_gpu && (left != right || !same_gpu || i < j)
}

/// Charges nodes for the tensors of fixed models: they take room, and no other instance has to
/// bring them.
fn fix(
    problem: &PlacementProblem<'_>,
    atoms: &mut [Atom],
    free: &mut [Room],
    stores: &mut StoreRooms,
) {
    for &Hosted { model, node } in problem.fixed {
        let room = free.at_mut(node);
        let store = problem.demands.at(model).store;
        for atom in &mut *atoms {
            let comes = atom.models.binary_search(&model).is_ok();
            if !comes {
                continue;
            }
            let brought = std::mem::take(atom.missing.at_mut(node));
            room.take(Resources::default(), brought);
            if let Some(room) = stores.get_mut(&(node, store)) {
                *room = room.saturating_sub(brought);
            }
        }
    }
}

/// Room for tensors in bytes, by node and store.
pub(super) type StoreRooms = BTreeMap<(usize, usize), u64>;

fn store_rooms(problem: &PlacementProblem<'_>) -> StoreRooms {
    let used: BTreeSet<usize> = problem.demands.iter().map(|demand| demand.store).collect();
    let nodes = problem.nodes.iter().enumerate();
    let rooms = nodes.flat_map(|(at, node)| {
        let stores = node.stores.iter().filter(|(store, _)| used.contains(store));
        stores.map(move |(&store, &room)| ((at, store), room))
    });
    rooms.collect()
}

fn kinds(
    problem: &PlacementProblem<'_>,
    atoms: &[Atom],
    free: &[Room],
    stores: &StoreRooms,
) -> (Vec<BTreeSet<usize>>, Vec<usize>) {
    let running: BTreeSet<usize> = problem.current.iter().map(|placed| placed.node).collect();
    let mut numbers = BTreeMap::new();
    let (mut kinds, mut kind_of) = (Vec::<BTreeSet<usize>>::new(), Vec::new());
    for (at, node) in problem.nodes.iter().enumerate() {
        let missing: Vec<u64> = atoms.iter().map(|atom| *atom.missing.at(at)).collect();
        let stores = stores.range((at, 0)..=(at, usize::MAX));
        let stores: Vec<(usize, u64)> = stores.map(|(key, room)| (key.1, *room)).collect();
        let gpus: Vec<_> = (node.gpus.iter().enumerate())
            .map(|(gpu, entry)| {
                let atoms = atoms.iter().map(|atom| *atom.on_gpus.at(at).at(gpu));
                let room = (
                    entry.kind,
                    entry.tensor_bytes,
                    entry.own_bytes,
                    entry.share_permille,
                );
                (room, atoms.collect::<Vec<OnGpu>>())
            })
            .collect();
        let free = (free.at(at), stores, gpus, node.gpus_only, node.accepts_new);
        let alone = running.contains(&at).then_some(at);
        let kind = *numbers.entry((alone, free, missing)).or_insert(kinds.len());
        match kinds.get_mut(kind) {
            Some(alike) => {
                alike.insert(at);
            }
            None => kinds.push(BTreeSet::from([at])),
        }
        kind_of.push(kind);
    }
    (kinds, kind_of)
}

fn current(problem: &PlacementProblem<'_>, choices: &[Vec<Choice>]) -> BTreeMap<Slot, u32> {
    let mut current = BTreeMap::new();
    for placed in problem.current {
        let of_model = choices.at(placed.model);
        let same = |choice: &Choice| {
            let gpu = choice.gpu.map(|gpu| gpu.at);
            choice.configuration == placed.configuration && gpu == placed.gpu
        };
        if let Some(choice) = of_model.iter().position(same) {
            let (model, node) = (placed.model, placed.node);
            let count: &mut u32 = current
                .entry(Slot {
                    model,
                    node,
                    choice,
                })
                .or_default();
            *count = count.saturating_add(placed.count);
        }
    }
    current
}
