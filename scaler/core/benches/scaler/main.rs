//! Benchmark of plans: their time, and their savings compared to the published algorithm.
//!
//! Run `cargo bench -p tetris-scaler-core`, with `-- --rounds N` for another number of rounds than
//! 25, with `-- --json FILE` to write the results to a file too. A missed bar is no failure: a timing
//! on a shared machine proves nothing.
#![expect(clippy::print_stdout, reason = "a benchmark prints its results")]

mod clock;
mod placement;
mod selection;
mod theta;

fn main() {
    let mut rounds = 25;
    let mut json = None;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        if arg == "--rounds" {
            rounds = args.next().and_then(|text| text.parse().ok()).unwrap_or(25);
        } else if arg == "--json" {
            json = args.next();
        }
    }
    let report = serde_json::json!({
        "rounds": rounds,
        "selections": selection::run(rounds),
        "thetas": theta::run(rounds),
        "placements": placement::run(rounds),
    });
    if let Some(path) = json {
        std::fs::write(&path, format!("{report:#}\n"))
            .unwrap_or_else(|error| panic!("cannot write `{path}`: {error}"));
    }
}
