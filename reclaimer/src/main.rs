//! The command `tetris-node`.

fn main() -> std::process::ExitCode {
    tetris_node::cli::main()
}
