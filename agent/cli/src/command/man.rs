//! `tetris man`: manual pages.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Args, CommandFactory as _};

use super::Cli;
use super::error::{Error, Result};
use super::exit::Code;

/// Arguments of `man`.
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// Directory for the pages; it is made if it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

/// Writes a page for the command and one for each subcommand.
pub(crate) fn run(args: &ManArgs) -> Result {
    write(&args.folder).map_err(|error| {
        let folder = args.folder.display();
        Error::message(
            Code::Failed,
            format_args!("cannot write manual pages to {folder}: {error}"),
        )
    })
}

fn write(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(Cli::command(), folder)
}
