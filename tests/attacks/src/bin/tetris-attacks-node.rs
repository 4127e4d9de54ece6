//! The daemon, as `tetris-node` is.

fn main() -> std::process::ExitCode {
    tetris_allocator::keep_little();
    tetris_node::cli::main()
}
