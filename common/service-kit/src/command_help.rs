//! Subcommands that all daemons have for their own command line: completions and manual pages.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;

/// Arguments of `completions`.
#[derive(Debug, Clone, Args)]
pub struct CompletionsArgs {
    /// Shell that reads the script
    shell: Shell,
}

impl CompletionsArgs {
    /// Prints the script by which the shell completes the command `C`.
    ///
    /// # Errors
    ///
    /// Fails if standard output cannot be written.
    pub fn run<C: CommandFactory>(&self) -> Result<()> {
        let mut command = C::command();
        let name = command.get_name().to_owned();
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, name, &mut script);
        io::stdout()
            .lock()
            .write_all(&script)
            .context("cannot write to standard output")
    }
}

/// Arguments of `man`.
#[derive(Debug, Clone, Args)]
pub struct ManArgs {
    /// Directory for the pages; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

impl ManArgs {
    /// Writes a page for the command `C` and one for each of its subcommands.
    ///
    /// # Errors
    ///
    /// Fails if the folder cannot be made, or a page cannot be written.
    pub fn run<C: CommandFactory>(&self) -> Result<()> {
        let folder = &self.folder;
        std::fs::create_dir_all(folder)
            .and_then(|()| clap_mangen::generate_to(C::command(), folder))
            .with_context(|| format!("cannot write manual pages to {}", folder.display()))
    }
}
