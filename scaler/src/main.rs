//! `tetris-scaler`.

fn main() {}
