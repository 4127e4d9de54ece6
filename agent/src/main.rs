//! The command `tetris`: prepares, fills, shows and cleans a tensor store.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
