//! `page-cache` and `own-file`: the file is mapped and read in place.

use std::fs::File;
use std::path::PathBuf;

use memmap2::Mmap;

use super::Loaded;
use crate::compute::Tensor;
use crate::error::{Error, Result};
use crate::index::{self, Entry};
use crate::mapping;

pub struct FileMap {
    files: Vec<(Mmap, Vec<Entry>)>,
}

impl FileMap {
    pub fn load(files: &[PathBuf]) -> Result<Self> {
        let files = files
            .iter()
            .map(|path| {
                let file = File::open(path).map_err(Error::io("open", path))?;
                let map = mapping::map_file(&file).map_err(Error::io("map", path))?;
                Ok((map, index::read(&file, path)?))
            })
            .collect::<Result<_>>()?;
        Ok(Self { files })
    }
}

impl Loaded for FileMap {
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
