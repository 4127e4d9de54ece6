//! The numbered steps of LAYOUT.md 5, and the protocols as lists of steps.

/// A step, with its name in LAYOUT.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "LAYOUT.md describes each of them")]
pub enum Step {
    P1,
    P2a,
    P2b,
    P3,
    P4,
    P5,
    P6,
    P7,
    P8,
    P9,
    M1,
    M2,
    M3,
    M4,
    M5,
    R1,
    R2,
    R3,
    R4,
    R5,
    Q1,
    Q2,
    Q3,
    Q4,
    Q5,
    Q6,
}

use Step::{
    M1, M2, M3, M4, M5, P1, P2a, P2b, P3, P4, P5, P6, P7, P8, P9, Q1, Q2, Q3, Q4, Q5, Q6, R1, R2,
    R3, R4, R5,
};

/// A protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// LAYOUT.md 5.1.
    Publish,
    /// LAYOUT.md 5.2.
    Map,
    /// LAYOUT.md 5.3.
    Reclaim,
    /// LAYOUT.md 5.5.
    Quarantine,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 4] = [Self::Publish, Self::Map, Self::Reclaim, Self::Quarantine];

    /// Its steps in order. P3 occurs twice: a process writes an object in several pieces.
    pub fn steps(self) -> &'static [Step] {
        match self {
            Self::Publish => &[P1, P2a, P2b, P3, P3, P4, P5, P6, P7, P8, P9],
            Self::Map => &[M1, M2, M3, M4, M5],
            Self::Reclaim => &[R1, R2, R3, R4, R5],
            Self::Quarantine => &[Q1, Q2, Q3, Q4, Q5, Q6],
        }
    }
}

/// The steps of all protocols, possibly with one omitted or moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    of: [Vec<Step>; 4],
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            of: Protocol::ALL.map(|protocol| protocol.steps().to_vec()),
        }
    }
}

impl Steps {
    /// The steps of LAYOUT.md without `step`.
    pub fn without(step: Step) -> Self {
        let mut steps = Self::default();
        for list in &mut steps.of {
            list.retain(|kept| *kept != step);
        }
        steps
    }

    /// The steps of LAYOUT.md with `step` moved directly behind `other`.
    ///
    /// # Panics
    /// If the two are not steps of one protocol.
    pub fn moved_behind(step: Step, other: Step) -> Self {
        let mut steps = Self::without(step);
        let list = steps.of.iter_mut().find(|list| list.contains(&other));
        let list = list.expect("a step of a protocol");
        let at = list.iter().rposition(|found| *found == other);
        let at = at.expect("the list has it") + 1;
        let count = if step == P3 { 2 } else { 1 };
        for _ in 0..count {
            list.insert(at, step);
        }
        steps
    }

    /// Returns the steps of `protocol`.
    pub fn list(&self, protocol: Protocol) -> &[Step] {
        &self.of[protocol as usize]
    }

    /// Returns the index of `step` in `protocol`.
    pub fn position(&self, protocol: Protocol, step: Step) -> Option<u8> {
        let at = self
            .list(protocol)
            .iter()
            .position(|&other| other == step)?;
        Some(at as u8)
    }
}
