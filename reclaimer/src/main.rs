//! The command `tetris-reclaimer`.

fn main() {}
