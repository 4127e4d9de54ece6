//! Loads a model through the store that `TETRIS_STORE` names, or the default one, and prints its tensors.
//!
//! `cargo run -p tetris-agent --example load -- model.safetensors`
//!
//! A second run reads nothing but the header and some blocks of the file: the store has the tensors.

#![expect(clippy::print_stdout, reason = "an example prints what it found")]

use std::error::Error;

use tetris_agent::{Agent, Words};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os()
        .nth(1)
        .ok_or("expected the path of a safetensors file or a folder of Hugging Face")?;
    // Never fails: without a usable store, loads go to private memory and say why.
    let agent = Agent::from_env();
    let model = agent.load(path)?;
    for tensor in model.tensors() {
        let (name, shape) = (tensor.name(), tensor.shape());
        let bytes = tensor.bytes().len();
        println!("{name}: {:?} {shape:?}, {bytes} bytes", tensor.dtype());
    }
    let report = model.report();
    println!(
        "{} bytes were in the store, {} are new, {} private; {} read",
        report.bytes_shared, report.bytes_new, report.bytes_private, report.bytes_read
    );
    if let (Some(reason), Some(remedy)) =
        (&report.private_reason, report.remedy(Words::CommandLine))
    {
        println!("private because {reason}: {remedy}");
    }
    Ok(())
}
