//! The command `tetris-node`.

#[path = "../../deploy/service-kit/allocator.rs"]
mod allocator;

fn main() -> std::process::ExitCode {
    tetris_service_kit::freed_pages::give_back_by(allocator::give_back);
    tetris_node::cli::main()
}
