//! Models, and stores with their agents.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use safetensors::tensor::{Dtype, TensorView};
use tempfile::TempDir;
use tetris_agent::{Agent, CreateOptions, Model, Store};

/// A store and a directory for models.
pub struct Fixture {
    store: TempDir,
    models: TempDir,
    pub agent: Agent,
}

impl Default for Fixture {
    fn default() -> Self {
        Self::new()
    }
}

impl Fixture {
    pub fn new() -> Self {
        let store = tempfile::tempdir_in("/dev/shm").unwrap();
        let models = tempfile::tempdir().unwrap();
        let opened = Store::create(store.path(), &CreateOptions::default()).unwrap();
        Self {
            agent: Agent::with_store(opened),
            store,
            models,
        }
    }

    pub fn store_dir(&self) -> &Path {
        self.store.path()
    }

    pub fn store(&self) -> &Store {
        self.agent.store().unwrap()
    }

    pub fn dir(&self) -> &Path {
        self.models.path()
    }

    pub fn model(&self, name: &str, seed: u64) -> PathBuf {
        let path = self.dir().join(name);
        write_model(&path, seed, None);
        path
    }
}

/// Bytes that follow from `seed`.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut reader = blake3::Hasher::new()
        .update(&seed.to_le_bytes())
        .finalize_xof();
    let mut bytes = vec![0; len];
    reader.fill(&mut bytes);
    bytes
}

/// A model of two layers with large and small tensors; `head` replaces the seed of the last one.
pub fn write_model(path: &Path, seed: u64, head: Option<u64>) {
    let mut tensors = Vec::new();
    for layer in 0..2 {
        let seed = seed * 100 + layer;
        tensors.push((format!("layer.{layer}.weight"), bytes(seed, 5_000_000)));
        tensors.push((format!("layer.{layer}.proj"), bytes(seed + 10, 300_000)));
        tensors.push((format!("layer.{layer}.bias"), bytes(seed + 20, 4_000)));
        tensors.push((format!("layer.{layer}.norm"), bytes(seed + 30, 4_000)));
    }
    tensors.push((
        "head.weight".into(),
        bytes(head.unwrap_or(seed * 100 + 50), 400_000),
    ));
    write_f32(path, &tensors);
    settle(path);
}

/// Two shards with an index.
pub fn write_sharded(dir: &Path) {
    std::fs::create_dir_all(dir).unwrap();
    let shards = [("a", 1), ("b", 2)];
    let mut map = Vec::new();
    for (name, seed) in shards {
        let file = format!("model-0000{seed}-of-00002.safetensors");
        let weight = (format!("{name}.weight"), file_bytes(seed));
        let bias = (format!("{name}.bias"), bytes(seed + 40, 400));
        map.push(format!(
            "\"{name}.weight\":\"{file}\",\"{name}.bias\":\"{file}\""
        ));
        let path = dir.join(file);
        write_f32(&path, &[weight, bias]);
        settle(&path);
    }
    let index = format!("{{\"metadata\":{{}},\"weight_map\":{{{}}}}}", map.join(","));
    std::fs::write(dir.join("model.safetensors.index.json"), index).unwrap();
}

pub fn file_bytes(seed: u64) -> Vec<u8> {
    bytes(seed, 200_000)
}

/// A file of these tensors, in the place of any other, that is new.
pub fn write_f32(path: &Path, tensors: &[(String, Vec<u8>)]) {
    let views = tensors.iter().map(|(name, bytes)| {
        let view = TensorView::new(Dtype::F32, vec![bytes.len() / 4], bytes).unwrap();
        (name.clone(), view)
    });
    write_views(path, views);
}

/// One tensor of each dtype, a scalar and an empty one.
pub fn write_all_dtypes(path: &Path) {
    let data = bytes(5, 64 * 8);
    let dtypes = tetris_agent::Dtype::ALL;
    let mut views = Vec::new();
    for dtype in dtypes {
        let theirs: Dtype = serde_json::from_str(&format!("\"{dtype}\"")).unwrap();
        let len = 64 * theirs.bitsize() / 8;
        views.push((
            format!("t.{dtype}"),
            TensorView::new(theirs, vec![8, 8], &data[..len]).unwrap(),
        ));
    }
    views.push((
        "scalar".into(),
        TensorView::new(Dtype::F64, vec![], &data[..8]).unwrap(),
    ));
    views.push((
        "empty".into(),
        TensorView::new(Dtype::F32, vec![0, 4], &[]).unwrap(),
    ));
    write_views(path, views.into_iter());
    settle(path);
}

fn write_views<'a>(path: &Path, views: impl Iterator<Item = (String, TensorView<'a>)>) {
    let metadata = [("format".to_owned(), "pt".to_owned())].into();
    // As a download tool does: under another name, then renamed.
    let partial = path.with_extension("partial");
    safetensors::serialize_to_file(views, Some(metadata), &partial).unwrap();
    std::fs::rename(&partial, path).unwrap();
}

/// Waits until a file's ctime is as old as it must be for its identity to be bound (LAYOUT.md 8). No call sets a ctime.
pub fn settle(path: &Path) {
    const GRANULARITY: Duration = Duration::from_millis(100);
    let file = std::fs::metadata(path).unwrap();
    let ctime = Duration::new(file.ctime() as u64, file.ctime_nsec() as u32);
    let age = || SystemTime::now().duration_since(UNIX_EPOCH + ctime);
    while age().is_ok_and(|age| age < GRANULARITY) {
        sleep(Duration::from_millis(1));
    }
}

/// Checks every tensor against what the reference implementation reads from the file.
pub fn assert_same(model: &Model, path: &Path) {
    let file = std::fs::read(path).unwrap();
    let expected = safetensors::SafeTensors::deserialize(&file).unwrap();
    assert_eq!(model.tensors().len(), expected.len());
    for tensor in model.tensors() {
        let theirs = expected.tensor(tensor.name()).unwrap();
        assert_eq!(tensor.bytes(), theirs.data(), "{}", tensor.name());
        let shape: Vec<u64> = theirs.shape().iter().map(|&dim| dim as u64).collect();
        assert_eq!(tensor.shape(), shape);
        assert_eq!(tensor.dtype().name(), theirs.dtype().to_string());
    }
    let order: Vec<_> = model
        .tensors()
        .map(|tensor| tensor.name().to_owned())
        .collect();
    let (_, header) = safetensors::SafeTensors::read_metadata(&file).unwrap();
    let mut by_offset: Vec<_> = header
        .tensors()
        .into_iter()
        .map(|(name, info)| (info.data_offsets, name))
        .collect();
    by_offset.sort();
    let expected: Vec<_> = by_offset.into_iter().map(|(_, name)| name).collect();
    assert_eq!(order, expected);
}
