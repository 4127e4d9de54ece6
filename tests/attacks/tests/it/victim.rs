//! A pod that loads fresh models, and is none of the attackers' business.

use std::time::Duration;

use tetris_attacks::line::Line;

use crate::attacker::Program;
use crate::node::{Node, Pod};

pub const USER: u32 = 5000;

pub struct Victim {
    program: Program,
    /// Durations of its loads.
    pub took: Vec<Duration>,
}

impl Victim {
    /// Starts one that loads a model at each interval.
    pub fn start(pod: &Pod, interval: Duration) -> Self {
        let every = interval.as_millis().to_string();
        let arguments = ["victim", "--every-ms", &every].map(str::to_owned);
        Self {
            program: Program::start(pod, "victim", &arguments),
            took: Vec::new(),
        }
    }

    /// Waits for further loads.
    ///
    /// # Panics
    /// When the bytes of one are wrong or private.
    pub fn loads(&mut self, node: &Node, loads: usize) {
        let until = self.took.len() + loads;
        while self.took.len() < until {
            match self.program.line() {
                Some(line) => self.note(node, &line),
                None => panic!("the victim ended: {}", node.log()),
            }
        }
    }

    /// Looks at the loads that there were by now.
    pub fn look(&mut self, node: &Node) {
        for line in self.program.lines_so_far() {
            self.note(node, &line);
        }
    }

    /// Ends it: what it kept mapped is compared once more.
    pub fn stop(self, node: &Node) -> Vec<Duration> {
        let Self { program, mut took } = self;
        for line in program.stop() {
            took.push(require_brokered(node, &line));
        }
        took
    }

    fn note(&mut self, node: &Node, line: &Line) {
        self.took.push(require_brokered(node, line));
    }
}

fn require_brokered(node: &Node, line: &Line) -> Duration {
    match line {
        Line::Load {
            recognized,
            private: 0,
            took_us,
            ..
        } if recognized == "brokered" => Duration::from_micros(*took_us),
        line => panic!("{line:?}: {}", node.log()),
    }
}
