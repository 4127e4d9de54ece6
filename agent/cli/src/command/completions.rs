//! `tetris completions`: subcommands and options for a shell.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Cli;
use super::error::Result;
use super::output::Output;

/// Arguments of `completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// Shell that reads the script
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(args: &CompletionsArgs, out: &mut Output) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tetris", &mut script);
    out.line(String::from_utf8_lossy(&script).trim_end())
}
