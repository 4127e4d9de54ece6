//! Functions, requests and rules of a scenario.

use tetris_scaler_core::Rate;

use super::{Route, SECOND_US};
use crate::catalog::Function;
use crate::cluster::WeightRules;
use crate::error::SimulationError;
use crate::policy::Policy;
use crate::recorded::{Requests, TraceInput};
use crate::scenario::Scenario;
use crate::trace::{Arrivals, rates};

/// Returns the requests of one application, at a place of the scenario's.
pub(super) fn arrivals_of(scenario: &Scenario, place: usize) -> Result<Requests, SimulationError> {
    let (mean, seconds, stream) = (scenario.mean_at(place), scenario.seconds, place as u64);
    match &scenario.trace {
        TraceInput::Generated(kind) => {
            let seed = scenario.seed.wrapping_add(stream << 32);
            let trace = rates(*kind, &scenario.assumptions.trace, seconds, mean, seed);
            Ok(Box::new(Arrivals::new(trace, scenario.seed, stream)))
        }
        TraceInput::Recorded(loads) => {
            let number = scenario.number_of(place);
            loads.requests(number, mean, seconds, (scenario.seed, stream))
        }
    }
}

/// Returns the functions of all applications, and each application's stages. Applications share
/// tensors but no functions, as each has its own objective and owner.
pub(super) fn routes(scenario: &Scenario) -> Result<(Vec<Function>, Vec<Route>), SimulationError> {
    let (mut functions, mut routes) = (Vec::new(), Vec::new());
    for application in &scenario.applications {
        let mut route = Route::new();
        for stage in application.stages() {
            let first = functions.len();
            for &(model, variant) in *stage {
                functions.push(Function::try_new(
                    model,
                    variant,
                    &scenario.assumptions.models,
                )?);
            }
            route.push((first..functions.len()).collect());
        }
        routes.push(route);
    }
    Ok((functions, routes))
}

/// Returns the mean load of each function.
pub(super) fn first_loads(
    scenario: &Scenario,
    functions: &[Function],
    routes: &[Route],
) -> Vec<Rate> {
    let mut loads = vec![Rate::ZERO; functions.len()];
    let first_permille = scenario.assumptions.models.branch_permille;
    for (route, place) in routes.iter().zip(0..) {
        let mean = scenario.mean_at(place).micro_rps();
        for stage in route {
            let shares: &[u64] = match stage.len() {
                1 => &[1_000],
                _ => &[first_permille, 1_000 - first_permille],
            };
            for (&function, &share) in stage.iter().zip(shares) {
                if let Some(load) = loads.get_mut(function) {
                    let micro = u128::from(mean) * u128::from(share) / 1_000;
                    *load = Rate::from_micro_rps(u64::try_from(micro).unwrap_or(u64::MAX));
                }
            }
        }
    }
    loads
}

/// Returns the cluster's rules about weights under a policy.
pub(super) fn rules(scenario: &Scenario, policy: Policy) -> WeightRules {
    let platform = &scenario.assumptions.platform;
    WeightRules {
        sharing: policy.sharing(),
        copied_permille: platform.copied_permille,
        keep_alive_us: platform.keep_alive_s.saturating_mul(SECOND_US),
    }
}
