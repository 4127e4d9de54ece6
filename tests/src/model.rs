//! Model files, and what must come out of loading them.

use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tetris_agent::Model;
use tetris_delivery::{Destination, PullOptions, SourceName, pull};
use tetris_folder::ModelFolder;
use tetris_store_layout::{Store, TensorId, TrustDomain};

/// Bytes that follow from `seed`.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut reader = blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof();
    let mut bytes = vec![0; len];
    reader.fill(&mut bytes);
    bytes
}

/// A tensor to write: name, seed of its bytes, length in bytes (a multiple of 4).
pub type Spec = (String, u64, usize);

/// Three tensors that are their own objects and a pack of small ones, about 0.5 MB together.
/// Tensors whose index is in `own` follow from `seed`, the others are the same in all such models.
pub fn small_specs(seed: u64, own: &[u64]) -> Vec<Spec> {
    let lengths = [300_000, 100_000, 70_000, 4_000, 2_000, 400];
    (0u64..)
        .zip(lengths)
        .map(|(index, len)| {
            let base = if own.contains(&index) { seed } else { 0 };
            (format!("t.{index}"), base * 1_000 + index, len)
        })
        .collect()
}

/// `count` tensors of `len` bytes.
pub fn equal_specs(seed: u64, count: u64, len: usize) -> Vec<Spec> {
    (0..count)
        .map(|index| (format!("layer.{index:03}"), seed * 10_000 + index, len))
        .collect()
}

/// Writes a safetensors file of these tensors in the place of any other.
pub fn write(path: &Path, specs: &[Spec]) -> anyhow::Result<()> {
    let partial = path.with_extension("partial");
    let data = serialize(specs)?;
    std::fs::write(&partial, data).with_context(|| partial.display().to_string())?;
    std::fs::rename(&partial, path)?;
    settle(path)
}

/// Waits until a file's ctime is as old as it must be for its identity to be bound (LAYOUT.md 8). No call sets a ctime.
pub fn settle(path: &Path) -> anyhow::Result<()> {
    const GRANULARITY: Duration = Duration::from_millis(100);
    let file = std::fs::metadata(path)?;
    let ctime = Duration::new(file.ctime().try_into()?, file.ctime_nsec().try_into()?);
    let age = || SystemTime::now().duration_since(UNIX_EPOCH + ctime);
    while age().is_ok_and(|age| age < GRANULARITY) {
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// The bytes of a safetensors file of these tensors.
pub fn serialize(specs: &[Spec]) -> anyhow::Result<Vec<u8>> {
    let data: Vec<_> = specs
        .iter()
        .map(|(name, seed, len)| (name.clone(), bytes(*seed, *len)))
        .collect();
    let views: Vec<_> = data
        .iter()
        .map(|(name, bytes)| {
            let view = TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes)?;
            Ok((name.clone(), view))
        })
        .collect::<anyhow::Result<_>>()?;
    Ok(safetensors::serialize(views, None)?)
}

/// Digest over names, types, shapes and bytes of all tensors, in the order of their names.
#[derive(Debug, Default)]
struct Fingerprint(Vec<(String, blake3::Hash)>);

impl Fingerprint {
    fn add(&mut self, name: &str, dtype: &str, shape: &[u64], bytes: &[u8]) {
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{name} {dtype} {shape:?} ").as_bytes());
        hasher.update(bytes);
        self.0.push((name.to_owned(), hasher.finalize()));
    }

    fn finish(mut self) -> String {
        self.0.sort_by(|a, b| a.0.cmp(&b.0));
        let mut hasher = blake3::Hasher::new();
        for (_, hash) in &self.0 {
            hasher.update(hash.as_bytes());
        }
        hasher.finalize().to_string()
    }
}

/// Digest of a loaded model. Fails if a tensor's id is not that of its bytes.
pub fn fingerprint(model: &Model) -> anyhow::Result<String> {
    let mut fingerprint = Fingerprint::default();
    for tensor in model.tensors() {
        if let Some(id) = tensor.id() {
            let digest = TensorId::of(tensor.bytes());
            anyhow::ensure!(
                id == digest,
                "tensor {} says {id}, its bytes are {digest}",
                tensor.name()
            );
        }
        let dtype = tensor.dtype().to_string();
        fingerprint.add(tensor.name(), &dtype, tensor.shape(), tensor.bytes());
    }
    Ok(fingerprint.finish())
}

/// Fingerprint of the tensors that the reference implementation reads from the bytes of a file.
pub fn fingerprint_of_bytes(file: &[u8]) -> anyhow::Result<String> {
    let mut fingerprint = Fingerprint::default();
    for (name, view) in SafeTensors::deserialize(file)?.tensors() {
        let shape: Vec<u64> = view.shape().iter().map(|&dim| dim as u64).collect();
        fingerprint.add(&name, &view.dtype().to_string(), &shape, view.data());
    }
    Ok(fingerprint.finish())
}

/// Fingerprint of the tensors that the reference implementation reads from a file.
pub fn fingerprint_of_file(path: &Path) -> anyhow::Result<String> {
    fingerprint_of_bytes(&std::fs::read(path)?)
}

/// Fingerprint of these tensors, as the reference implementation would read them from a file.
pub fn fingerprint_of_specs(specs: &[Spec]) -> anyhow::Result<String> {
    fingerprint_of_bytes(&serialize(specs)?)
}

/// Name of the model that a process loads or pulls which is killed at step `at`.
pub fn cold_model(at: u64) -> String {
    format!("cold-{at}.safetensors")
}

/// Pulls the model at `path` with one thread, and compares it with the folder that then shows it.
pub fn pull_model(store: &Store, path: &Path) -> anyhow::Result<()> {
    let options = PullOptions::default()
        .with_threads(NonZeroUsize::MIN)
        .with_connections(NonZeroUsize::MIN);
    let source = SourceName::Folder(path.to_owned());
    pull(&source, Destination::writable(store, &|_| false), &options)?;
    let folder = ModelFolder::open(&source.stored_name(), &[TrustDomain::Owner], store, 1)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let file = folder.read(&name, 0, usize::MAX >> 1);
    anyhow::ensure!(
        file.as_deref() == Some(&std::fs::read(path)?[..]),
        "the folder has other bytes"
    );
    Ok(())
}
