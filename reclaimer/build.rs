//! Generates messages and servers of the services that the kubelet calls.

const FILES: [&str; 2] = ["csi.proto", "pluginregistration.proto"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=proto");
    let files = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure()
        .build_client(false)
        .bytes(".")
        .compile_fds(files)?;
    Ok(())
}
