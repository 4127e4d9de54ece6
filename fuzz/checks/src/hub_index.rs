//! Conditions on any bytes in the index of a model with several files. Shared by the fuzz target and
//! the tests of the loader.

use std::collections::BTreeSet;
use std::fs;
use std::path::Component;

use tempfile::TempDir;
use tetris_loader::hub::{INDEX_NAME, Layout, resolve};

/// Files that are there beside the index.
pub const SHARDS: [&str; 3] = ["a.safetensors", "b.safetensors", "sub/c.safetensors"];

/// A folder of a model whose index is replaced.
pub struct Site {
    folder: TempDir,
}

impl Default for Site {
    fn default() -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        for shard in SHARDS {
            fs::write(folder.path().join(shard), b"").unwrap();
        }
        Self { folder }
    }
}

impl Site {
    /// Finds the files of a model with the index `bytes`. Returns the reason there are none.
    ///
    /// # Panics
    ///
    /// If a file lies outside the folder, the files and the tensors' disagree, or a message is unfit
    /// for a terminal.
    pub fn check(&self, bytes: &[u8]) -> Result<Layout, String> {
        let folder = self.folder.path();
        fs::write(folder.join(INDEX_NAME), bytes).unwrap();
        let layout = resolve(folder).map_err(|error| {
            let text = error.to_string();
            assert!((1..9000).contains(&text.len()), "{} bytes", text.len());
            assert!(!text.contains(char::is_control), "{text:?}");
            text
        })?;
        assert!(layout.files.is_sorted_by(|one, next| one < next));
        for file in &layout.files {
            let inside = file.strip_prefix(folder).unwrap();
            let parts: BTreeSet<_> = inside.components().collect();
            assert!(
                parts
                    .iter()
                    .all(|part| matches!(part, Component::Normal(_)))
            );
            assert!(SHARDS.iter().any(|shard| inside.as_os_str() == *shard));
        }
        let of_tensors = layout.weight_map.as_ref().expect("there is an index");
        let of_tensors: BTreeSet<_> = of_tensors.values().collect();
        assert!(of_tensors.into_iter().eq(&layout.files));
        Ok(layout)
    }
}
