//! Counting answers.

use std::collections::BTreeMap;

use tetris_container_tests::report::Line;

/// Answers to one sort of request, by kind.
#[derive(Debug)]
pub struct Tally {
    to: &'static str,
    counts: BTreeMap<String, u64>,
}

impl Tally {
    pub fn new(to: &'static str) -> Self {
        let counts = BTreeMap::new();
        Self { to, counts }
    }

    pub fn count(&mut self, answer: impl Into<String>) {
        *self.counts.entry(answer.into()).or_default() += 1;
    }

    pub fn say(self) -> std::io::Result<()> {
        let (to, counts) = (self.to.to_owned(), self.counts);
        Line::Answers { to, counts }.say()
    }
}
