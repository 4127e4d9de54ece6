//! The committed seeds of the target `sidecar`: that of the target's model, and damaged ones.

use std::fs;

use tetris_agent::{Agent, LoadOptions, ManifestKind, sidecar};

use crate::sidecar::{Site, sealed};

/// Name and content of every seed.
pub fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let whole = whole();
    let body = &whole[..whole.len() - 32];
    // Offsets of LAYOUT.md 3.5
    let changed = |at: usize, bytes: &[u8]| {
        let mut body = body.to_vec();
        body[at..at + bytes.len()].copy_from_slice(bytes);
        sealed(body)
    };
    vec![
        ("valid-whole", whole.clone()),
        ("valid-reserved", changed(12, &[1])),
        ("hostile-no-bytes", Vec::new()),
        ("hostile-cut-head", sealed(body[..60].to_vec())),
        ("hostile-cut-manifest", sealed(body[..150].to_vec())),
        ("hostile-digest", [body, &[7; 32]].concat()),
        ("hostile-magic", changed(0, b"X")),
        ("hostile-version", changed(8, &[2])),
        ("hostile-size", changed(16, &[1])),
        ("hostile-time", changed(24, &[0xff; 8])),
        ("hostile-nanoseconds", changed(32, &[0xff; 4])),
        ("hostile-header-digest", changed(40, &[1; 32])),
        ("hostile-sample", changed(72, &[1; 32])),
        // Lengths whose sum with the head's exceeds 64 bits.
        ("hostile-manifest-length", changed(104, &[0xff; 8])),
        ("hostile-manifest-crc", changed(112 + 124, &[0xff; 4])),
    ]
}

/// The sidecar written beside the model.
fn whole() -> Vec<u8> {
    let site = Site::default();
    let (kind, options) = (ManifestKind::Safetensors, LoadOptions::default());
    let agent = Agent::without_store();
    let mut manifests = agent.manifests(&site.model, kind, &options).unwrap();
    let (_, manifest) = manifests.remove(0);
    let path = sidecar::write(&site.model, &manifest).unwrap();
    fs::read(path).unwrap()
}
