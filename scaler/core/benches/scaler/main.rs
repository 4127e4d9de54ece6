//! Benchmark of plans: their time, and their savings compared to the published algorithm.
//!
//! Run `cargo bench -p tetris-scaler-core`, with `-- --rounds N` for another number of rounds than
//! 25. A missed bar is no failure: a timing on a shared machine proves nothing.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod clock;
mod placement;
mod selection;
mod theta;

fn main() {
    let mut rounds = 25;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--rounds" {
            rounds = args.next().and_then(|text| text.parse().ok()).unwrap_or(25);
        }
    }
    selection::run(rounds);
    theta::run(rounds);
    placement::run(rounds);
}
