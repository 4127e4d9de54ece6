//! Hostile pods, and the victim beside them.

fn main() -> anyhow::Result<()> {
    tetris_attacks::cli::main()
}
