//! Generates messages and server of KEDA's external scaler.

const FILES: [&str; 1] = ["externalscaler.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        .bytes(".")
        .compile_fds(files)?;
    Ok(())
}
