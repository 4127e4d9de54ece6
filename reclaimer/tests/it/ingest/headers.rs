//! Memory for headers: clients choose their sizes.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tetris_agent::ManifestKind;
use tetris_node::ingest::{IngestConfig, IngestOptions};
use tetris_wire::daemon::Message;

use crate::ingest::ground::tensor;
use crate::ingest::harness::{Site, no_room};
use crate::private_memory::private_bytes;
use tetris_test_support::alone::alone;

/// Files passed at once.
const FILES: u64 = 4;
/// Length of their headers in MiB: each is a large one.
const MIB: usize = 6;
/// Memory of one header, by the factor that the broker charges, and of everything else here.
const MOST: u64 = (16 * MIB as u64 + 24) << 20;

/// A file whose header of `mib` has as many tensors as fit, each of one byte.
pub fn file_of(mib: usize, seed: u64) -> File {
    let mut header = String::with_capacity(mib << 20);
    let mut tensors = 0_u64;
    header.push('{');
    while header.len() < (mib << 20) - 64 {
        let end = tensors + 1;
        write!(
            header,
            r#""{seed}{tensors:x}":{{"dtype":"U8","shape":[],"data_offsets":[{tensors},{end}]}},"#
        )
        .unwrap();
        tensors = end;
    }
    header.pop();
    header.push('}');
    let mut file = tempfile::tempfile().unwrap();
    let len = header.len() as u64;
    file.write_all(&len.to_le_bytes()).unwrap();
    file.write_all(header.as_bytes()).unwrap();
    file.set_len(8 + len + tensors).unwrap();
    file
}

#[test]
fn headers_of_many_files_at_once_stay_within_their_memory() {
    if !alone() {
        return;
    }
    let options = IngestOptions {
        config: IngestConfig {
            concurrent: 8,
            per_store: 8,
            per_user: 8,
            max_tensors: 2_000_000,
            ..IngestConfig::default()
        },
        ..IngestOptions::default()
    };
    let Some(site) = Site::new(2048, options, no_room()) else {
        return;
    };
    let files: Vec<File> = (0..FILES).map(|seed| file_of(MIB, seed)).collect();
    let before = private_bytes();
    let peak = AtomicU64::new(0);
    let answers: Vec<Message> = std::thread::scope(|scope| {
        let site = &site;
        let pass = |file| scope.spawn(move || site.pass(file, ManifestKind::Safetensors));
        let passing: Vec<_> = files.iter().map(pass).collect();
        // A small file has its turn beside them.
        let mut small = tempfile::tempfile().unwrap();
        small.write_all(&tensor(100_000, 1)).unwrap();
        let small = scope.spawn(move || site.pass(&small, ManifestKind::File));
        while !passing
            .iter()
            .all(std::thread::ScopedJoinHandle::is_finished)
        {
            peak.fetch_max(private_bytes(), Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(1));
        }
        let all = passing.into_iter().chain([small]);
        all.map(|passed| passed.join().unwrap()).collect()
    });
    for answer in answers {
        assert!(matches!(answer, Message::Ingested { .. }), "{answer:?}");
    }
    let grown = peak.into_inner().saturating_sub(before);
    assert!(grown < MOST, "{} MiB", grown >> 20);
}
