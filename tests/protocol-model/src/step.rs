//! The numbered steps of LAYOUT.md 5, and the protocols as lists of them.

/// A step, under the name that LAYOUT.md gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "LAYOUT.md says what each of them is")]
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

/// Which protocol.
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
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Publish, Self::Map, Self::Reclaim, Self::Quarantine];

    /// Its steps in order. P3 is there twice: an object is written in several pieces.
    pub fn steps(self) -> &'static [Step] {
        match self {
            Self::Publish => &[P1, P2a, P2b, P3, P3, P4, P5, P6, P7, P8, P9],
            Self::Map => &[M1, M2, M3, M4, M5],
            Self::Reclaim => &[R1, R2, R3, R4, R5],
            Self::Quarantine => &[Q1, Q2, Q3, Q4, Q5, Q6],
        }
    }
}

/// All protocols, possibly with a step too few or in another place.
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
    /// As LAYOUT.md has them, without `step`.
    pub fn without(step: Step) -> Self {
        let mut steps = Self::default();
        for list in &mut steps.of {
            list.retain(|kept| *kept != step);
        }
        steps
    }

    /// As LAYOUT.md has them, but `step` directly after `other`.
    ///
    /// # Panics
    /// When the two are not of one protocol.
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

    /// The steps of `protocol`.
    pub fn list(&self, protocol: Protocol) -> &[Step] {
        &self.of[protocol as usize]
    }

    /// Where `step` is in `protocol`.
    pub fn position(&self, protocol: Protocol, step: Step) -> Option<u8> {
        let found = self
            .list(protocol)
            .iter()
            .position(|&other| other == step)?;
        Some(found as u8)
    }
}
