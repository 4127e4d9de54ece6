//! Writes the committed seeds again: `cargo run --example write_seeds`.

use std::path::Path;
use std::{fs, io};

#[path = "../seeds/header.rs"]
mod header;
#[path = "../seeds/manifest.rs"]
mod manifest;
#[path = "../checks/manifest_repair.rs"]
mod repair;
#[path = "../seeds/wire.rs"]
mod wire;

fn main() -> io::Result<()> {
    write("safetensors_header", &header::seeds())?;
    write("manifest", &manifest::seeds(repair::repaired))?;
    write("wire", &wire::seeds())
}

fn write(target: &str, seeds: &[(&str, Vec<u8>)]) -> io::Result<()> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("corpus")
        .join(target);
    fs::create_dir_all(&dir)?;
    for (name, content) in seeds {
        fs::write(dir.join(name), content)?;
    }
    Ok(())
}
