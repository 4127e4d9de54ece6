//! Programs in containers: `load` as a server loads its model, `tamper`, `lock`, `flood` and `pass` as a hostile one, and
//! `publish-wrongly` as a node plugin would that makes a bind mount read-only too late.

mod files;
mod flood;
mod load;
mod lock;
mod pass;
mod tally;
mod tamper;
mod wrong_bind;

use std::path::PathBuf;

use anyhow::Result;
use clap::Parser;
use tetris_container_tests::report::Line;

/// Path of a pod's store.
const STORE: &str = "/run/tetris/store";

#[derive(Debug, Parser)]
enum Cli {
    /// Load a model, check its bytes, and hold it until SIGTERM
    Load(load::Args),
    /// Try to change the store
    Tamper,
    /// Lock all files of the store as far as possible, and hold that until killed
    Lock,
    /// Connections, garbage, half frames, asks for room
    Flood,
    /// Pass what is no model file
    Pass {
        /// A directory to work in
        scratch: PathBuf,
        /// Small files to pass, each with its own objects
        #[arg(long)]
        files: u64,
        /// Tells the files from those of others
        #[arg(long)]
        seed: u64,
    },
    /// Mount SOURCE at TARGET, and make that read-only afterwards
    PublishWrongly { source: PathBuf, target: PathBuf },
}

fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .init();
    match Cli::parse() {
        Cli::Load(args) => return load::run(&args),
        Cli::Tamper => tamper::run(STORE.as_ref())?,
        Cli::Lock => lock::run(STORE.as_ref())?,
        Cli::Flood => flood::run(STORE.as_ref())?,
        Cli::Pass {
            scratch,
            files,
            seed,
        } => pass::run(STORE.as_ref(), &scratch, files, seed)?,
        Cli::PublishWrongly { source, target } => wrong_bind::run(&source, &target)?,
    }
    Ok(Line::Done.say()?)
}
