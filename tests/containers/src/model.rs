//! Model files, and what must come out of loading them.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use tetris_agent::Model;

/// Bytes made at a time: a container's memory limit leaves room for no more.
const PIECE_BYTES: usize = 256 << 10;

/// A model of equal tensors, whose bytes follow from `seed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Distinguishes models: no tensor is in two of them.
    pub seed: u64,
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes of each.
    pub tensor_bytes: usize,
}

impl Spec {
    /// Tensors of 1 MiB.
    pub const fn mib(seed: u64, mib: u64) -> Self {
        Self {
            seed,
            tensors: mib,
            tensor_bytes: 1 << 20,
        }
    }

    /// Bytes of all tensors.
    pub const fn bytes(&self) -> u64 {
        self.tensors * self.tensor_bytes as u64
    }

    /// Writes it to `path` as safetensors.
    pub fn write(&self, path: &Path) -> Result<()> {
        let header = self.header();
        let mut file =
            std::fs::File::create_new(path).with_context(|| path.display().to_string())?;
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for tensor in 0..self.tensors {
            self.each_piece(tensor, |_, piece| Ok(file.write_all(piece)?))?;
        }
        settle(path)
    }

    /// Checks that `model` is this one, byte for byte.
    pub fn verify(&self, model: &Model) -> Result<()> {
        ensure!(
            model.tensors().len() as u64 == self.tensors,
            "{} tensors, expected {}",
            model.tensors().len(),
            self.tensors
        );
        for index in 0..self.tensors {
            let name = name(index);
            let tensor = model
                .tensor(&name)
                .with_context(|| format!("no `{name}`"))?;
            let bytes = tensor.bytes();
            ensure!(
                bytes.len() == self.tensor_bytes,
                "`{name}` has {} bytes",
                bytes.len()
            );
            self.each_piece(index, |at, piece| {
                let same = bytes.get(at..at + piece.len()) == Some(piece);
                ensure!(same, "`{name}` differs after byte {at}");
                Ok(())
            })?;
        }
        Ok(())
    }

    fn header(&self) -> String {
        let entries = (0..self.tensors).map(|index| {
            let begin = index * self.tensor_bytes as u64;
            let end = begin + self.tensor_bytes as u64;
            let (name, len) = (name(index), self.tensor_bytes);
            format!(r#""{name}":{{"dtype":"U8","shape":[{len}],"data_offsets":[{begin},{end}]}}"#)
        });
        format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
    }

    /// Makes the bytes of a tensor, piece by piece, and hands them on with their place.
    fn each_piece(
        &self,
        tensor: u64,
        mut each: impl FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut bytes = blake3::Hasher::new()
            .update(&self.seed.to_le_bytes())
            .update(&tensor.to_le_bytes())
            .finalize_xof();
        let mut piece = vec![0; PIECE_BYTES.min(self.tensor_bytes)];
        let mut at = 0;
        while at < self.tensor_bytes {
            piece.truncate(self.tensor_bytes - at);
            bytes.fill(&mut piece);
            each(at, &piece)?;
            at += piece.len();
        }
        Ok(())
    }
}

/// Waits until a file's ctime is as old as it must be for its identity to be bound (LAYOUT.md 8). No call sets a ctime.
fn settle(path: &Path) -> Result<()> {
    const GRANULARITY: Duration = Duration::from_millis(100);
    let file = std::fs::metadata(path)?;
    let ctime = Duration::new(file.ctime().try_into()?, file.ctime_nsec().try_into()?);
    let age = || SystemTime::now().duration_since(UNIX_EPOCH + ctime);
    while age().is_ok_and(|age| age < GRANULARITY) {
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn name(index: u64) -> String {
    format!("layer.{index:04}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tetris_agent::Agent;

    #[test]
    fn a_model_is_told_from_one_of_another_seed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.safetensors");
        let spec = Spec {
            seed: 1,
            tensors: 3,
            tensor_bytes: PIECE_BYTES + 1,
        };
        spec.write(&path).unwrap();
        let model = Agent::without_store().load(&path).unwrap();
        spec.verify(&model).unwrap();
        let other = Spec { seed: 2, ..spec };
        other.verify(&model).unwrap_err();
    }
}
