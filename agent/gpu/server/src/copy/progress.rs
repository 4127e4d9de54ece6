//! Progress of a transfer: its complete objects.

use std::collections::BTreeMap;

use tetris_store_layout::ObjectId;

use super::{Group, TransferPlan};

/// Remaining pieces of a transfer. Groups may end in any order.
#[derive(Debug, Clone)]
pub struct Progress {
    /// Number of remaining pieces of each object.
    left: BTreeMap<ObjectId, usize>,
    ended: Vec<bool>,
}

impl Progress {
    /// Starts with all pieces remaining.
    pub fn new(plan: &TransferPlan) -> Self {
        let mut left = BTreeMap::new();
        for piece in plan.groups().iter().flat_map(|group| &group.pieces) {
            *left.entry(piece.object).or_default() += 1;
        }
        Self {
            left,
            ended: vec![false; plan.groups().len()],
        }
    }

    /// Records that the group of this number has been copied. Returns the objects that this
    /// completes.
    pub fn ended(&mut self, number: usize, group: &Group) -> Vec<ObjectId> {
        let mut complete = Vec::new();
        match self.ended.get_mut(number) {
            Some(ended) if !*ended => *ended = true,
            _ => return complete,
        }
        for piece in &group.pieces {
            if let Some(left) = self.left.get_mut(&piece.object) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.left.remove(&piece.object);
                    complete.push(piece.object);
                }
            }
        }
        complete
    }

    /// Returns true if every object is complete.
    pub fn is_complete(&self) -> bool {
        self.left.is_empty()
    }
}
