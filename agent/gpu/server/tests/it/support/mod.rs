//! Parts shared by the tests of all devices: another process, and pages of a store.
#![allow(
    clippy::print_stdout,
    reason = "tests print their answers and findings"
)]

use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use crate::conformance::{PeerReport, act_as_peer};
use tetris_gpu_device::{DeviceMemory, Exported, HANDLE_BYTES, HostSlice, Mapped, Protection};
use tetris_gpu_server::copy::StorePages;
use tetris_store_layout::{Access, CreateOptions, Digest, Store};

/// Length of the chunk in bytes, and its handle in hexadecimal. A descriptor is passed as standard
/// input.
const BYTES: &str = "TETRIS_PEER_BYTES";
const HANDLE: &str = "TETRIS_PEER_HANDLE";

/// Starts this test program's test `name` in another process, with the chunk.
pub fn start(name: &str, exported: Exported, bytes: u64) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([
        "--exact",
        name,
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(BYTES, bytes.to_string()).env_remove(HANDLE);
    match exported {
        Exported::Descriptor(file) => {
            command.stdin(file);
        }
        Exported::Handle(handle) => {
            command.env(HANDLE, in_hex(&handle)).stdin(Stdio::null());
        }
    }
    command.stdout(Stdio::piped()).spawn().unwrap()
}

/// Two digits for each byte.
fn in_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

/// The first line of the process that begins with `peer:`.
pub fn answer(child: &mut Child) -> Result<String, String> {
    let mut all = String::new();
    let output = child.stdout.as_mut().unwrap();
    for line in BufReader::new(output).lines() {
        let line = line.map_err(|error| error.to_string())?;
        if let Some((_, answer)) = line.split_once("peer: ") {
            return Ok(answer.to_owned());
        }
        all.push_str(&line);
    }
    Err(format!("no answer in: {all}"))
}

/// Runs the test `name` in another process and returns its report.
pub fn ask(name: &str, exported: Exported, bytes: u64) -> Result<PeerReport, String> {
    let mut child = start(name, exported, bytes);
    let answer = answer(&mut child);
    // Reads its remaining output, so that no write of it fails.
    let _all = io::copy(child.stdout.as_mut().unwrap(), &mut io::sink());
    let status = child.wait().map_err(|error| error.to_string())?;
    let answer = answer.map_err(|error| format!("{status}: {error}"))?;
    let words: Vec<_> = answer.split(' ').collect();
    Ok(PeerReport {
        digest: words[0].parse::<Digest>().unwrap(),
        mapped_read_only: words[1] == "true",
        mapped_for_writing: words[2] == "true",
    })
}

/// The chunk with which this process was started.
pub fn inherited() -> (Exported, u64) {
    let bytes = std::env::var(BYTES).unwrap().parse().unwrap();
    let exported = if let Ok(hex) = std::env::var(HANDLE) {
        let mut handle = [0u8; HANDLE_BYTES];
        for (at, byte) in handle.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
        }
        Exported::Handle(handle)
    } else {
        let input = io::stdin();
        Exported::Descriptor(input.as_fd().try_clone_to_owned().unwrap())
    };
    (exported, bytes)
}

/// Acts as the other process of the conformance suite.
pub fn report<D: DeviceMemory>(device: &D) {
    let (exported, bytes) = inherited();
    let report = act_as_peer(device, exported, bytes).unwrap();
    let (read_only, writing) = (report.mapped_read_only, report.mapped_for_writing);
    println!("\npeer: {} {read_only} {writing}", report.digest);
}

/// Copies an object from a store's own pages, which the device registers if it can.
pub fn store_pages_reach_the_device<D: DeviceMemory>(device: &D) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let store = Store::create(directory.path(), &CreateOptions::default()).unwrap();
    let content: Vec<u8> = (0..3_000_001u32).map(|at| ((at * 7) >> 5) as u8).collect();
    let published = store.publish(&content, Access::ReadOnly).unwrap();
    let from = HostSlice::whole(Arc::new(published.mapping));
    let registration = device.register(from.clone());
    match &registration {
        Ok(_) => println!("registered {} bytes of a store", content.len()),
        Err(error) => println!("not registered: {error}"),
    }
    assert!(registration.is_ok() || !device.capabilities().registers_read_only);
    drop(registration);
    // Mapped as the server does it.
    let access = StorePages::access(&device.capabilities());
    let mapping = store.map(&published.object, access).unwrap().unwrap();
    let access = mapping.access();
    let from = HostSlice::whole(Arc::new(StorePages::new(Arc::new(mapping))));
    let registration = device.register(from.clone());
    match &registration {
        Ok(_) => println!("the server's way: registered ({access:?})"),
        Err(error) => println!("the server's way: refused ({access:?}): {error}"),
    }
    let bytes = 2 * device.capabilities().granule_bytes;
    let chunk = device.create(bytes).unwrap();
    let range = device.reserve(bytes).unwrap();
    let mapping = Arc::new(device.map(range, &chunk, Protection::ReadWrite).unwrap());
    let mut stream = device.stream().unwrap();
    device.copy_in(&mut stream, &mapping, 512, from).unwrap();
    device.synchronize(&mut stream).unwrap();
    let mut read_back = vec![0; content.len()];
    assert_eq!(mapping.bytes(), bytes);
    device.read_back(&mapping, 512, &mut read_back).unwrap();
    assert!(read_back == content);
}
