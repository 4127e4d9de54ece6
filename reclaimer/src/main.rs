//! The command `tetris-reclaimer`.

fn main() -> std::process::ExitCode {
    tetris_reclaimer::cli::main()
}
