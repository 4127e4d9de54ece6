//! Generates messages of external processing, and the server of health checks.

const FILES: [&str; 2] = ["ext_proc.proto", "health.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        .bytes(".")
        .compile_fds(files)?;
    Ok(())
}
