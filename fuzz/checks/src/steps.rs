//! Sessions as bytes, step by step.

use crate::session::{
    BYTES, BYTES_WITH, CHANGE, CLOSE, CONNECT, FRAME, GREET, HEAR, READ, SAY, SAY_CUT, SAY_WITH,
    SELECT,
};

/// A session.
#[derive(Default, Clone)]
pub struct Steps(pub Vec<u8>);

impl Steps {
    pub fn connect(self, client: u8) -> Self {
        self.step(&[CONNECT, client])
    }

    pub fn greet(self, client: u8) -> Self {
        self.step(&[GREET, client])
    }

    pub fn select(self, client: u8) -> Self {
        self.step(&[SELECT, client])
    }

    pub fn say(self, message: u8) -> Self {
        self.step(&[SAY, message])
    }

    pub fn say_cut(self, message: u8, len: u8) -> Self {
        self.step(&[SAY_CUT, message, len])
    }

    pub fn frame(self, kind: u8, payload: &[u8]) -> Self {
        self.step(&[FRAME, kind]).counted(payload)
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        self.step(&[BYTES]).counted(bytes)
    }

    /// Bytes with `count` descriptors, of which all from the last of `kinds` on are alike.
    pub fn bytes_with(self, bytes: &[u8], kinds: &[u8], count: u8) -> Self {
        let steps = self.step(&[BYTES_WITH]).counted(bytes);
        steps.descriptors(kinds, count)
    }

    pub fn say_with(self, message: u8, kinds: &[u8], count: u8) -> Self {
        self.step(&[SAY_WITH, message]).descriptors(kinds, count)
    }

    pub fn read(self) -> Self {
        self.step(&[READ])
    }

    pub fn hear(self) -> Self {
        self.step(&[HEAR])
    }

    /// Ends the sending side (0), the receiving side (1) or both (2), or closes the socket (3).
    pub fn close(self, how: u8) -> Self {
        self.step(&[CLOSE, how])
    }

    pub fn change(self, len: u8) -> Self {
        self.step(&[CHANGE, len])
    }

    fn descriptors(mut self, kinds: &[u8], count: u8) -> Self {
        self.0.push(kinds.len() as u8);
        self.0.extend(kinds);
        self.0.push(count);
        self
    }

    fn counted(mut self, bytes: &[u8]) -> Self {
        self.0.push(bytes.len() as u8);
        self.0.extend(bytes);
        self
    }

    fn step(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }
}
