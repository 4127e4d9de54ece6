//! Scale-out policies: the configurations and the nodes of new instances.

mod infless;
mod nodes;
mod photons;

use std::fmt;

use serde::Serialize;
use tetris_scaler_core::{MemoryTerm, Rate, Selection, SloTooTight, Weights, dts, solve};

use crate::catalog::Function;
use crate::cluster::{Cluster, Loads, Sharing};
use crate::error::SimulationError;
use crate::platform::Platform;

pub(crate) use nodes::best_score;

/// The compared policies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// Batching only, by throughput per CPU, on fragmented resources (Tetris 2.3, 5.3).
    Infless,
    /// Concurrency only, as much as the objective allows, with CPU in proportion (Tetris 5.1, 5.3).
    Photons,
    /// DTS without sharing of tensors, the paper's Tetris-RO (5.1).
    DtsRo,
    /// DTS, with a file and a copy in private memory for each instance.
    PrivateCopies,
    /// DTS, with files that instances map, so that the page cache shares them.
    PageCache,
    /// The same, and an instance goes where the most of its file is mapped already.
    PageCachePlaced,
    /// DTS, then the most similar node: the paper's Tetris (3.2).
    Dts,
    /// The exact solution of the integer program, then the most similar node.
    Exact,
    /// Configurations and nodes of all functions at once.
    SharingAware,
}

impl Policy {
    /// All policies, in the order of reports.
    pub const ALL: [Self; 9] = [
        Self::Infless,
        Self::Photons,
        Self::DtsRo,
        Self::PrivateCopies,
        Self::PageCache,
        Self::PageCachePlaced,
        Self::Dts,
        Self::Exact,
        Self::SharingAware,
    ];

    /// Name of the policy in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Infless => "INFless",
            Self::Photons => "Photons",
            Self::DtsRo => "DTS-RO",
            Self::PrivateCopies => "private-copies",
            Self::PageCache => "page-cache",
            Self::PageCachePlaced => "page-cache-placed",
            Self::Dts => "DTS",
            Self::Exact => "exact",
            Self::SharingAware => "sharing-aware",
        }
    }

    /// Description of the policy.
    pub const fn about(self) -> &'static str {
        match self {
            Self::Infless => {
                "batching only: the largest batch that the load fills in time, most throughput per CPU, fullest node"
            }
            Self::Photons => {
                "concurrency only: as many threads as the objective allows, two cores each, emptiest node"
            }
            Self::DtsRo => {
                "DTS (Algorithm 1), weights copied out of the page cache into private memory, emptiest node"
            }
            Self::PrivateCopies => {
                "DTS (Algorithm 1), own file and private memory for each instance, emptiest node"
            }
            Self::PageCache => {
                "DTS (Algorithm 1), one file of each model mapped in place, emptiest node"
            }
            Self::PageCachePlaced => {
                "DTS (Algorithm 1), one file of each model mapped in place, node where it is mapped"
            }
            Self::Dts => "DTS (Algorithm 1), tensors shared, most similar node",
            Self::Exact => "exact integer program, tensors shared, most similar node with a spread",
            Self::SharingAware => {
                "configurations and nodes of all functions at once, a tensor paid once per node"
            }
        }
    }

    /// Way in which instances of a node share weights.
    pub const fn sharing(self) -> Sharing {
        match self {
            Self::Infless | Self::Photons | Self::DtsRo => Sharing::CopiedFile,
            Self::PrivateCopies => Sharing::Private,
            Self::PageCache | Self::PageCachePlaced => Sharing::MappedFile,
            Self::Dts | Self::Exact | Self::SharingAware => Sharing::Store,
        }
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An instance to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Index of the node.
    pub node: usize,
    /// Index of the configuration in the function's profile.
    pub configuration: usize,
    /// Weights that it must load.
    pub loads: Loads,
}

/// Result of scaling out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Started {
    /// Instances that were placed; they take their resources now.
    pub starts: Vec<Start>,
    /// Number of instances without room.
    pub unplaced: u64,
}

/// Starts instances of one function for `residual`. [`Policy::SharingAware`] normally uses
/// [`decide`](tetris_scaler_core::decide) for all functions at once; here it equals
/// [`Policy::Exact`]. `platform` has the CPU that [`Policy::Photons`] gives a thread, and the cost of
/// CPU in the policies after it.
///
/// # Errors
///
/// Fails if the policy has no configuration that meets the objective, or if the cost of CPU is out of
/// range.
pub fn scale_out(
    policy: Policy,
    function: &Function,
    residual: Rate,
    cluster: &mut Cluster,
    platform: &Platform,
) -> Result<Started, SimulationError> {
    let weights = Weights::try_new(platform.alpha_bytes_per_millicore, MemoryTerm::Whole)?;
    let (profile, slo) = (&function.profile, function.slo);
    let selection = match policy {
        Policy::Infless => return infless::scale_out(function, residual, cluster),
        Policy::Photons => photons::select(function, residual, platform.photons_cpu_millis),
        Policy::DtsRo
        | Policy::PrivateCopies
        | Policy::PageCache
        | Policy::PageCachePlaced
        | Policy::Dts => dts(profile, slo, residual, weights),
        Policy::Exact | Policy::SharingAware => {
            solve(profile, slo, residual, weights).map(|solution| solution.selection)
        }
    };
    let selection = selection.map_err(|reason| too_tight(function, reason))?;
    place_each(policy, function, &selection, cluster)
}

fn too_tight(function: &Function, reason: SloTooTight) -> SimulationError {
    SimulationError::SloTooTight {
        function: function.name.clone(),
        reason,
    }
}

fn place_each(
    policy: Policy,
    function: &Function,
    selection: &Selection,
    cluster: &mut Cluster,
) -> Result<Started, SimulationError> {
    let mut started = Started::default();
    for choice in &selection.choices {
        let Some(one) = function.profile.configurations().get(choice.configuration) else {
            continue;
        };
        for done in 0..choice.count {
            let node = match policy {
                Policy::Infless
                | Policy::Photons
                | Policy::DtsRo
                | Policy::PrivateCopies
                | Policy::PageCache => nodes::emptiest(cluster, function, one),
                Policy::PageCachePlaced => nodes::cheapest(cluster, function, one),
                Policy::Dts => nodes::most_similar(cluster, function, one),
                Policy::Exact | Policy::SharingAware => best_score(cluster, function, one),
            };
            let Some(node) = node else {
                started.unplaced += choice.count - done;
                break;
            };
            if let Some(loads) = cluster.start(node, function, one)? {
                let configuration = choice.configuration;
                started.starts.push(Start {
                    node,
                    configuration,
                    loads,
                });
            }
        }
    }
    Ok(started)
}
