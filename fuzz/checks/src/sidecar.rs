//! Conditions on any bytes in the sidecar of a model. Shared by the fuzz target and the tests of the
//! agent.

use std::fs::{self, File, FileTimes};
use std::path::PathBuf;
use std::time::{Duration, UNIX_EPOCH};

use tempfile::TempDir;
use tetris_agent::sidecar::{self, SidecarState};
use tetris_loader::Source;
use tetris_store_layout::Digest;

use crate::manifest_repair;

/// Bytes before the manifest, and the digest behind it (LAYOUT.md 3.5).
const HEAD_LEN: usize = 112;
const DIGEST_LEN: usize = 32;

/// A model whose sidecar is replaced.
pub struct Site {
    _folder: TempDir,
    pub model: PathBuf,
}

impl Default for Site {
    /// Writes the model: two tensors, always with the same time stamp.
    fn default() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        let model = folder.path().join("model.safetensors");
        let json = br#"{"a":{"dtype":"F32","shape":[8],"data_offsets":[0,32]},"b":{"dtype":"U8","shape":[3],"data_offsets":[32,35]}}"#;
        let data: Vec<u8> = (0..35).collect();
        let length = (json.len() as u64).to_le_bytes();
        fs::write(&model, [&length, json.as_slice(), &data].concat()).unwrap();
        let modified = UNIX_EPOCH + Duration::new(1_700_000_000, 5);
        let file = File::options().write(true).open(&model).unwrap();
        file.set_times(FileTimes::new().set_modified(modified))
            .unwrap();
        Self {
            _folder: folder,
            model,
        }
    }
}

impl Site {
    /// Looks at `bytes` as the model's sidecar. Returns true if it is valid for the model.
    ///
    /// # Panics
    ///
    /// If a valid sidecar is another than the one written for its manifest, or a message is
    /// unfit for a terminal.
    pub fn check(&self, bytes: &[u8]) -> bool {
        let path = sidecar::path_of(&self.model);
        fs::write(&path, bytes).unwrap();
        let source = Source::open(&self.model).unwrap();
        match sidecar::state(&source).unwrap() {
            SidecarState::Valid(manifest) => {
                sidecar::write(&self.model, &manifest).unwrap();
                let again = fs::read(&path).unwrap();
                assert!(without_reserved(&again) == without_reserved(bytes));
                true
            }
            SidecarState::Damaged(error) => {
                let text = error.to_string();
                assert!((1..2000).contains(&text.len()), "{text}");
                assert!(!text.contains(char::is_control), "{text:?}");
                false
            }
            SidecarState::Stale => false,
            other => panic!("the file is there, and ours: {other:?}"),
        }
    }
}

/// The bytes without those that have no meaning yet, and without the digest over them.
fn without_reserved(sidecar: &[u8]) -> Vec<u8> {
    let mut bytes = sidecar[..sidecar.len() - DIGEST_LEN].to_vec();
    bytes[12..16].fill(0);
    bytes[36..40].fill(0);
    bytes
}

/// `input` with magic, version, lengths and checksums put right, those of the manifest too. Nearly
/// every change breaks them.
pub fn repaired(input: &[u8]) -> Vec<u8> {
    let end = input.len().saturating_sub(DIGEST_LEN);
    let Some((head, manifest)) = input
        .get(..end)
        .and_then(|body| body.split_at_checked(HEAD_LEN))
    else {
        return input.to_vec();
    };
    let manifest = manifest_repair::repaired(manifest);
    let mut body = head.to_vec();
    body[..12].copy_from_slice(b"TETRSIDE\x01\0\0\0");
    body[104..].copy_from_slice(&(manifest.len() as u64).to_le_bytes());
    body.extend(manifest);
    sealed(body)
}

/// `body`, and its digest.
pub fn sealed(mut body: Vec<u8>) -> Vec<u8> {
    let digest = Digest::of(&body).0;
    body.extend(digest);
    body
}
