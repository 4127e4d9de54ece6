//! What to start and to release, from what is observed.

mod change;
mod cluster;
mod consolidate;
mod grow;
mod outcome;
mod output;
mod prefer;
mod settings;
mod single;
mod state;
mod step;
mod totals;
mod trouble;
mod usable;
mod view;

use std::collections::BTreeMap;

pub use outcome::Outcome;
pub use output::{Decision, FunctionDecision, Preference, Totals};
pub use settings::Settings;
pub use view::{FunctionView, InstanceView, Model, NodeView, Phase, View};

use change::Change;
use cluster::Cluster;
use consolidate::Site;
use state::State;
use step::{Growth, Step};

/// What to start, to release and to replace.
///
/// Pure: the operator, the KEDA scaler, `tetris-scaler plan` and the simulator use it alike. A caller looks from
/// time to time, gives what it sees, and carries the decision out.
///
/// **Starts.** Nothing starts unless the load with the headroom of scaling out exceeds what instances carry that
/// run, start or are asked for, or fewer than the minimum are there. What runs is not moved for that: a plan
/// for what is not carried puts new instances where they cost least (see [`place`](crate::place)), empty nodes with a
/// reserve. It leaves the headroom of scaling in, or where nodes or the maximum do not allow that, the headroom of
/// scaling out. A maximum that does not allow that either is filled with the fastest configuration.
///
/// **Releases.** By [`scale_in`](crate::scale_in) alone, over the peak of a whole window with the larger headroom;
/// no function starts and releases in one decision, but to make room under its maximum. When the ready instances
/// carry all of that, also those that are not ready go. A load of zero over a whole window, and a minimum of
/// zero, gives zero instances; a load above zero brings them back.
///
/// **Replacing.** If a function is steady and allows it, a plan for all such functions together, in which each
/// tensor counts once per node whether it is there or not, may replace instances if it saves enough. What it
/// replaces is listed as [`retiring`](FunctionDecision::retiring) and stays until its replacements are ready and carry
/// the peak with the larger headroom. Retiring is part of what the caller observes, so that nothing depends on
/// what this or the caller remembers. When the load rises, they become ordinary instances again.
///
/// **Order of events.** A decision follows from the view alone, whatever the order of its instances and
/// nodes. When the caller has carried it out, the same load gives the same decision.
///
/// **One function's trouble is its own.** What has no configuration or finds no room does not stop others;
/// [`Outcome`] says what would have to change.
pub fn decide(view: &View<'_>, settings: &Settings) -> Decision {
    let mut states = State::of(view);
    let steps: Vec<Step> = states.iter_mut().map(step::step).collect();
    let cluster = Cluster::of(view);
    let growths = steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| match step {
            Step::Grow(growth) => Some((at, *growth)),
            _ => None,
        });
    let growths: BTreeMap<usize, Growth> = growths.collect();
    let mut started = grow::grow(view, &cluster, &states, &growths, settings);
    let site = Site {
        view,
        cluster: &cluster,
        states: &states,
        settings,
    };
    let mut moves = consolidate::consolidate(&site, &steps);
    let each = states.iter().zip(steps).enumerate();
    let functions = each.map(|(at, (state, step))| {
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
