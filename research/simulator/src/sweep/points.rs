//! Points of a sweep: changes of the assumptions.

use serde::Serialize;
use tetris_simulation::Rng;

use super::inputs::{INPUTS, Input};
use crate::scenario::Assumptions;

/// A change of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// Name of the input.
    pub input: &'static str,
    /// Its value.
    pub value: u64,
}

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Differences from the default assumptions: none, one, or a random combination.
    pub changes: Vec<Change>,
    /// True for a random combination.
    pub random: bool,
}

/// Random numbers of combinations are independent of those of traces.
const STREAM: u64 = 1 << 40;

/// Returns the default, each input at its low and its high value, and `random` combinations in
/// which each input is low, default or high with equal probability.
pub(super) fn points(random: usize, seed: u64) -> Vec<Point> {
    let mut all = vec![Point {
        changes: Vec::new(),
        random: false,
    }];
    for input in INPUTS {
        let ends = [input.low, input.high].into_iter();
        all.extend(
            ends.filter(|&end| end != input.default_value())
                .map(|value| Point {
                    changes: vec![change(input, value)],
                    random: false,
                }),
        );
    }
    let mut rng = Rng::new(seed, STREAM);
    all.extend((0..random).map(|_| combination(&mut rng)));
    all
}

fn combination(rng: &mut Rng) -> Point {
    let mut changes = Vec::new();
    for input in INPUTS {
        match rng.below(3) {
            0 => changes.push(change(input, input.low)),
            1 => changes.push(change(input, input.high)),
            _ => {}
        }
    }
    changes.retain(|change| Some(change.value) != default_of(change.input));
    Point {
        changes,
        random: true,
    }
}

const fn change(input: &Input, value: u64) -> Change {
    Change {
        input: input.name,
        value,
    }
}

fn default_of(name: &str) -> Option<u64> {
    let input = INPUTS.iter().find(|input| input.name == name);
    input.map(Input::default_value)
}

impl Point {
    /// Returns `assumptions` with the changes of the point.
    pub fn assumptions(&self, mut assumptions: Assumptions) -> Assumptions {
        for change in &self.changes {
            if let Some(input) = INPUTS.iter().find(|input| input.name == change.input) {
                input.set(&mut assumptions, change.value);
            }
        }
        // A mean over less than an interval between scrapes is none.
        let platform = &mut assumptions.platform;
        platform.load_window_s = platform.load_window_s.max(platform.scrape_s);
        assumptions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_input_changes_at_a_time_and_combinations_follow_from_the_seed() {
        let all = points(5, 1);
        let single = all.iter().filter(|point| point.changes.len() == 1).count();
        // Two inputs are at an end by default.
        assert!(single >= 2 * INPUTS.len() - 4, "{single}");
        assert_eq!(all.iter().filter(|point| point.random).count(), 5);
        assert_eq!(all, points(5, 1));
        assert_ne!(all, points(5, 2));
        for point in &all[1..] {
            let default = Assumptions::default();
            assert_ne!(point.assumptions(default), default, "{point:?}");
        }
    }
}
