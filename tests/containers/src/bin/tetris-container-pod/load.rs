//! A server's part: the model is loaded as every program loads it.

use std::path::PathBuf;

use anyhow::Result;
use nix::sys::signal::{SigSet, Signal};
use tetris_agent::store_location::StoreLocation;
use tetris_agent::{Agent, LoadReport};
use tetris_container_tests::model::Spec;
use tetris_container_tests::report::{Line, Loaded};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The model file
    path: PathBuf,
    /// Seed of the expected content
    #[arg(long)]
    seed: u64,
    /// It has so many tensors
    #[arg(long)]
    tensors: u64,
    /// of so many bytes each
    #[arg(long)]
    tensor_bytes: usize,
    /// The store
    #[arg(long, default_value = super::STORE)]
    store: PathBuf,
    /// End at once
    #[arg(long)]
    once: bool,
}

pub fn run(args: &Args) -> Result<()> {
    // Before anything is printed: a reader of the output may send the signal.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGTERM);
    signals.thread_block()?;
    let spec = Spec {
        seed: args.seed,
        tensors: args.tensors,
        tensor_bytes: args.tensor_bytes,
    };
    let agent = Agent::at(&StoreLocation::named(&args.store));
    let model = agent.load(&args.path)?;
    spec.verify(&model)?;
    Line::Loaded(loaded(model.report())).say()?;
    if args.once {
        return Ok(());
    }
    signals.wait()?;
    spec.verify(&model)?;
    Ok(Line::StillRight.say()?)
}

fn loaded(report: &LoadReport) -> Loaded {
    let recognized: Vec<_> = report.recognized.iter().map(|how| how.name()).collect();
    Loaded {
        recognized: recognized.join(","),
        bytes_shared: report.bytes_shared + report.bytes_new,
        bytes_private: report.bytes_private,
        bytes_read: report.bytes_read,
        private_reason: report.private_reason.clone(),
    }
}
