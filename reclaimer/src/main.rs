//! The command `tetris-reclaimer`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
