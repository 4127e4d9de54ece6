//! Photons as Tetris 5.1 extends it: concurrency only, greedy.

use tetris_scaler_core::{Configuration, Profile, Rate, Selection, Slo, SloTooTight};

use crate::catalog::Function;

/// Selects the configuration without batches and with the most threads that meets the objective, in
/// the number that the load needs. A thread has `cpu_millis`: the paper states that it is fixed (5.3), but
/// gives no value.
pub(super) fn select(
    function: &Function,
    residual: Rate,
    cpu_millis: u64,
) -> Result<Selection, SloTooTight> {
    let allowed = |one: &Configuration| {
        one.batch() == 1 && one.cpu_millis() == cpu_millis * u64::from(one.concurrency())
    };
    let feasible = function
        .profile
        .feasible(function.slo)
        .filter(|(_, entry)| allowed(entry));
    let best = feasible.max_by_key(|(_, entry)| entry.concurrency());
    let Some((configuration, one)) = best else {
        return Err(too_tight(&function.profile, function.slo, allowed));
    };
    let count = residual.micro_rps().div_ceil(one.rate().micro_rps().max(1));
    Ok(Selection {
        choices: vec![tetris_scaler_core::Choice {
            configuration,
            count,
        }],
        rate: one.rate().times(count),
        cost: u128::from(one.memory_bytes()) * u128::from(count),
        cpu_millis: u128::from(one.cpu_millis()) * u128::from(count),
        memory_bytes: u128::from(one.memory_bytes()) * u128::from(count),
    })
}

/// Returns the reason none of the allowed configurations meets the objective.
pub(super) fn too_tight(
    profile: &Profile,
    slo: Slo,
    allowed: impl Fn(&Configuration) -> bool,
) -> SloTooTight {
    let all = profile
        .configurations()
        .iter()
        .filter(|configuration| allowed(configuration));
    SloTooTight {
        slo_us: slo.us(),
        least_slo_us: all
            .map(Configuration::least_slo_us)
            .min()
            .unwrap_or(u64::MAX),
    }
}
