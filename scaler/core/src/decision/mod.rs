//! Decisions: instances to start, release and replace.

mod assign;
mod beside;
mod change;
mod cluster;
mod consolidate;
mod grow;
mod outcome;
mod output;
mod parts;
mod prefer;
mod settings;
mod single;
mod started;
mod state;
mod step;
mod totals;
mod unplaced;
mod usable;
mod view;

use std::collections::BTreeMap;

pub use assign::{Place, Waiting, assign};
pub use cluster::{gpu_places, gpu_rooms};
pub use outcome::FunctionOutcome;
pub use output::{Decision, FunctionDecision, Preference, Totals};
pub use settings::Settings;
pub use view::{FunctionModel, FunctionView, InstanceView, NodeView, Phase, View};

use change::Change;
use cluster::Cluster;
use consolidate::{Move, Site};
use started::Started;
use state::State;
use step::{Growth, Step};

/// Decides which instances to start, release and replace.
///
/// Pure: the operator, the KEDA scaler, `tetris-scaler plan` and the simulator all use it. The
/// caller observes the cluster periodically, calls this function, and executes the decision.
///
/// **Starts.** Nothing starts unless the load with the headroom of scaling out exceeds what instances carry that
/// run, start or are asked for, or fewer than the minimum are there. What runs is not moved for that: a plan
/// for what is not carried puts new instances where they cost least (see [`place`](crate::place)), empty nodes with a
/// reserve. Failing instances are replaced, for at most the load once again. It leaves the headroom of scaling in, or where nodes or the maximum do not allow that, the headroom of
/// scaling out. A maximum that does not allow that either is filled with the fastest configuration.
///
/// **Releases.** Only [`scale_in`](crate::scale_in) releases instances, by the peak of a whole
/// window with the larger headroom. No function starts and releases instances in one decision,
/// except to make room under its maximum. If the ready instances carry the whole load, instances
/// that are not ready are released too, failing ones first. A load of zero over a whole window gives zero instances if
/// the minimum is zero; a load above zero brings them back.
///
/// **Replacement.** Functions that are steady and allow it are planned together, with each tensor
/// counted once per node, resident or not, on what the starts of others leave; not while an instance
/// that starts finds no room. The plan replaces instances if it saves enough. Replaced
/// instances are listed as [`retiring`](FunctionDecision::retiring). They stay until their
/// replacements are ready and carry the peak with the larger headroom. Retiring is a part of the
/// caller's observations, so the decision needs no memory. If the load rises, or a replacement has
/// no room on any node, they become ordinary instances again.
///
/// **Determinism.** A decision depends only on the view, not on the order of its instances and
/// nodes. Once the caller has executed it, the same load gives the same decision.
///
/// **Isolation.** A function without a configuration or without room does not stop others; its
/// [`FunctionOutcome`] describes the necessary change.
pub fn decide(view: &View<'_>, settings: &Settings) -> Decision {
    let mut states = State::of(view);
    let cluster = Cluster::of(view);
    let remaining = states.iter_mut();
    let steps: Vec<Step> = remaining
        .map(|state| step::step(state, &cluster, settings))
        .collect();
    let growths = steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| match step {
            Step::Grow(growth) => Some((at, *growth)),
            _ => None,
        });
    let growths: BTreeMap<usize, Growth> = growths.collect();
    let mut started = grow::grow(view, &cluster, &states, &growths, settings);
    let mut moves = if started.is_empty() {
        let site = Site {
            view,
            cluster: &cluster,
            states: &states,
            settings,
        };
        consolidate::consolidate(&site, &steps)
    } else {
        beside(view, &started, &steps, settings)
    };
    let stepped = states.iter().zip(steps).enumerate();
    let functions = stepped.map(|(at, (state, step))| {
        let change = Change {
            started: started.remove(&at).unwrap_or_default(),
            moved: moves.remove(&at),
            step,
        };
        change.decision(state, &cluster, settings)
    });
    Decision {
        functions: functions.collect(),
    }
}

/// Returns the replacements of steady functions, for which there is the room that starts of others
/// leave.
fn beside(
    view: &View<'_>,
    started: &BTreeMap<usize, Started>,
    steps: &[Step],
    settings: &Settings,
) -> BTreeMap<usize, Move> {
    let Some(instances) = started::with_started(view, started) else {
        return BTreeMap::new();
    };
    let view = View {
        instances: &instances,
        ..*view
    };
    let (states, cluster) = (State::of(&view), Cluster::of(&view));
    let site = Site {
        view: &view,
        cluster: &cluster,
        states: &states,
        settings,
    };
    consolidate::consolidate(&site, steps)
}
