//! `private`: plain reads into the heap, one allocation per tensor.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::Loaded;
use crate::compute::Tensor;
use crate::error::{Error, Result};
use crate::index::{self, Entry};

pub struct Heap {
    tensors: Vec<(u32, Entry, Vec<u8>)>,
}

impl Heap {
    pub fn load(files: &[PathBuf]) -> Result<Self> {
        let mut tensors = Vec::new();
        for (number, path) in files.iter().enumerate() {
            let file = File::open(path).map_err(Error::io("open", path))?;
            for entry in index::read(&file, path)? {
                let mut bytes = vec![0; entry.len() as usize];
                file.read_exact_at(&mut bytes, entry.begin)
                    .map_err(Error::io("read", path))?;
                tensors.push((number as u32, entry, bytes));
            }
        }
        Ok(Self { tensors })
    }
}

impl Loaded for Heap {
    fn for_each(&self, visit: &mut dyn FnMut(&Tensor<'_>)) {
        for (file, entry, bytes) in &self.tensors {
            visit(&Tensor {
                file: *file,
                name: &entry.name,
                element: entry.element,
                shape: &entry.shape,
                bytes,
            });
        }
    }
}
