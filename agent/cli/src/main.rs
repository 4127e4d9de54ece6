//! The command `tetris`: prepares, fills, shows and cleans a tensor store.

mod command;

fn main() -> std::process::ExitCode {
    command::main()
}
