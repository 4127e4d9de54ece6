//! Source of a run's model.

use std::path::Path;

use indicatif::{ProgressBar, ProgressStyle};
use tetris_store_layout::Store;

use crate::model::{BenchModel, Header, import, make, shapes};
use crate::{BenchError, GpuBenchArgs};

/// Source of the model.
pub(crate) enum Source {
    Made(Vec<(String, Vec<usize>)>),
    File(Header),
}

impl Source {
    /// The source that the command line chose.
    pub fn of(args: &GpuBenchArgs) -> Result<Self, BenchError> {
        match &args.model {
            Some(path) => Header::read(path).map(Self::File),
            None => Ok(Self::Made(shapes(args.bytes))),
        }
    }

    /// Length of its tensors, in bytes; those of a file that occur twice count twice.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Made(shapes) => {
                let elements = shapes
                    .iter()
                    .map(|(_, shape)| shape.iter().product::<usize>());
                elements.sum::<usize>() as u64 * 2
            }
            Self::File(header) => header.bytes(),
        }
    }

    /// Writes the model to a store.
    pub fn publish(&self, store: &Store) -> Result<BenchModel, BenchError> {
        let bar = ProgressBar::new(self.bytes());
        let template = "writing the model [{bar:30}] {bytes}/{total_bytes}, {bytes_per_sec}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        let done = |bytes| bar.inc(bytes);
        let model = match self {
            Self::Made(shapes) => make(store, shapes, &done),
            Self::File(header) => import(store, header, &done),
        };
        bar.finish_and_clear();
        model
    }

    /// Path of its file; `None` if it is generated.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Made(_) => None,
            Self::File(header) => Some(header.path.as_path()),
        }
    }
}
