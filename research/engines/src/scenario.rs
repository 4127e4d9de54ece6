//! Compared policies and times.

use tetris_scaler_dispatch::engines::GroupRules;

use crate::SECOND;
use crate::policy::{Policy, Residency};
use crate::swap::SwapPerRequest;
use crate::trace::Workload;

/// Times of an engine's moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    /// Name.
    pub name: &'static str,
    /// Time to fall asleep, or to stop.
    pub sleep_us: u64,
    /// Time to wake up, or to start.
    pub wake_us: u64,
}

/// Assumed times: sleep of level 1 (weights in the host's memory), of level 2 (weights read again), and a restart of the process.
pub const fn moves() -> [Move; 3] {
    [
        Move {
            name: "level 1",
            sleep_us: SECOND / 2,
            wake_us: SECOND,
        },
        Move {
            name: "level 2",
            sleep_us: SECOND / 2,
            wake_us: 6 * SECOND,
        },
        Move {
            name: "restart",
            sleep_us: 2 * SECOND,
            wake_us: 45 * SECOND,
        },
    ]
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Requests.
    pub workload: Workload,
    /// Times of engines.
    pub moves: Move,
    /// Longest wait of a request.
    pub wait_us: u64,
}

/// A policy with its name.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// Name.
    pub name: &'static str,
    /// Number of engines that may be awake.
    pub awake: u64,
    /// Residence and turn; none for swaps per request.
    times: Option<(u64, u64)>,
}

/// Residence and turn by default, as `[engine_group.NAME]` has them.
pub const USUAL: (u64, u64) = (2 * SECOND, 10 * SECOND);

/// Compared policies, with the residence and the turn of Tetris.
pub const fn candidates(times: (u64, u64)) -> [Candidate; 5] {
    const fn of(name: &'static str, awake: u64, times: Option<(u64, u64)>) -> Candidate {
        Candidate { name, awake, times }
    }
    let usual = Some(times);
    [
        of("swap per request", 1, None),
        of("LRU, no residence", 1, Some((0, 0))),
        of("Tetris", 1, usual),
        of("LRU, no residence", 3, Some((0, 0))),
        of("Tetris", 3, usual),
    ]
}

impl Candidate {
    /// A policy for so many models.
    pub fn policy(&self, models: usize) -> Box<dyn Policy> {
        let Some((residence_us, turn_us)) = self.times else {
            return Box::new(SwapPerRequest::default());
        };
        let rules = GroupRules {
            capacity: self.awake,
            queue: 1_000,
            residence_us,
            turn_us,
            drain_us: 60 * SECOND,
            cut_us: 2 * SECOND,
            idle_us: None,
        };
        Box::new(Residency::new(models, rules))
    }
}
