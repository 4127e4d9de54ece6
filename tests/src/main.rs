//! The worker program: runs the task in its argument.

use anyhow::Context;

fn main() -> anyhow::Result<()> {
    let job = std::env::args().nth(1).context("expected a job as JSON")?;
    tetris_tests::run(&serde_json::from_str(&job)?)
}
