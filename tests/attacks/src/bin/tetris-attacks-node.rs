//! The daemon, as `tetris-node` is.

fn main() -> std::process::ExitCode {
    tetris_node::cli::main()
}
