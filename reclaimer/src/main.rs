//! The command `tetris-node`.

#[path = "../../deploy/service-kit/allocator.rs"]
mod allocator;
#[path = "../../deploy/service-kit/kept_memory.rs"]
mod kept_memory;

fn main() -> std::process::ExitCode {
    kept_memory::keep_little();
    tetris_service_kit::freed_pages::give_back_by(allocator::give_back);
    tetris_node::cli::main()
}
