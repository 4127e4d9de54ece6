//! `ksm`: each file is read into anonymous memory that the kernel may merge.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use memmap2::{Advice, MmapMut};

use super::Loaded;
use crate::compute::Tensor;
use crate::error::{Error, Result};
use crate::index::{self, Entry};

pub struct Mergeable {
    files: Vec<(MmapMut, Vec<Entry>)>,
}

impl Mergeable {
    /// Reads into one mapping per file, so that equal files have equal pages. One mapping per
    /// tensor would have equal pages too, but waste a page for each small tensor.
    pub fn load(files: &[PathBuf]) -> Result<Self> {
        let files = files
            .iter()
            .map(|path| {
                let file = File::open(path).map_err(Error::io("open", path))?;
                let entries = index::read(&file, path)?;
                let length = file.metadata().map_err(Error::io("examine", path))?.len();
                let mut map = MmapMut::map_anon(length as usize)
                    .map_err(Error::io("allocate memory for", path))?;
                file.read_exact_at(&mut map, 0)
                    .map_err(Error::io("read", path))?;
                map.advise(Advice::Mergeable)
                    .map_err(Error::io("mark as mergeable", path))?;
                Ok((map, entries))
            })
            .collect::<Result<_>>()?;
        Ok(Self { files })
    }
}

impl Loaded for Mergeable {
    fn for_each(&self, visit: &mut dyn FnMut(&Tensor<'_>)) {
        for (number, (map, entries)) in self.files.iter().enumerate() {
            for entry in entries {
                visit(&Tensor {
                    file: number as u32,
                    name: &entry.name,
                    element: entry.element,
                    shape: &entry.shape,
                    bytes: &map[entry.begin as usize..entry.end as usize],
                });
            }
        }
    }
}
