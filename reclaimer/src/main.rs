//! The command `tetris-node`.

fn main() -> std::process::ExitCode {
    tetris_allocator::keep_little();
    tetris_node::cli::main()
}
