//! The daemon, as `tetris-reclaimer` is.

fn main() -> std::process::ExitCode {
    tetris_reclaimer::cli::main()
}
