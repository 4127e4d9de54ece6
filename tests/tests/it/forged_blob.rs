//! A file in a Hugging Face cache whose header is exchanged while it is being bound to the digest in
//! its name must not lend its tensors' names to the real blob of that digest.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use tetris_tests::check::require_reclaimable;
use tetris_tests::model::{equal_specs, fingerprint, fingerprint_of_file, serialize};
use tetris_tests::scratch::Scratch;

const ROUNDS: u64 = 60;

#[test]
fn a_header_exchanged_during_the_first_load_of_a_blob_is_never_bound() {
    let scratch = Scratch::new().unwrap();
    let agent = scratch.agent().unwrap();
    let manifests = scratch.root().join("manifests-v1");
    for round in 0..ROUNDS {
        // The same bytes, but the names of the tensors are exchanged.
        let honest = serialize(&equal_specs(round, 2, 100_000)).unwrap();
        let mut liar = honest.clone();
        let header_len = u64::from_le_bytes(honest[..8].try_into().unwrap()) as usize;
        let text = String::from_utf8(honest[8..8 + header_len].to_vec()).unwrap();
        let swapped = text
            .replace("layer.000", "layer.tmp")
            .replace("layer.001", "layer.000")
            .replace("layer.tmp", "layer.001");
        liar[8..8 + header_len].copy_from_slice(swapped.as_bytes());
        assert_ne!(liar, honest);

        let digest = sha256(&honest);
        let blobs = |pod: &str| {
            let dir = scratch
                .models()
                .join(format!("{pod}-{round}"))
                .join("blobs");
            std::fs::create_dir_all(&dir).unwrap();
            dir.join(&digest)
        };
        let (attack, victim) = (blobs("attack"), blobs("victim"));
        std::fs::write(&attack, &liar).unwrap();
        std::fs::write(&victim, &honest).unwrap();
        let done = AtomicBool::new(false);
        let file = File::options().write(true).open(&attack).unwrap();
        let header = &honest[..8 + header_len];
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // The manifest is there: the file has been found unchanged.
                while std::fs::read_dir(&manifests).unwrap().next().is_none()
                    && !done.load(Ordering::Relaxed)
                {}
                file.write_all_at(header, 0).unwrap();
            });
            let _ = agent.load(&attack);
            done.store(true, Ordering::Relaxed);
        });
        let model = agent.load(&victim).unwrap();
        assert_eq!(
            fingerprint(&model).unwrap(),
            fingerprint_of_file(&victim).unwrap(),
            "round {round}: wrong names, recognized by {:?}",
            model.report().recognized
        );
        drop(model);
        require_reclaimable(scratch.store(), scratch.empty_usage()).unwrap();
    }
}

/// The SHA-256 of `bytes` in hexadecimal digits.
fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    // Thirty-two bytes, as those of any other digest.
    tetris_store_layout::Digest(Sha256::digest(bytes).into()).to_string()
}
