//! Copies of the model files, one set per instance, as in pods that download their own model.

use std::path::{Path, PathBuf};

use super::Workload;
use crate::error::{Error, Result};
use crate::methods::{self, Method};
use crate::system::disk;

/// The copies of one workload; removed on drop.
pub struct Copies {
    directory: PathBuf,
    made: usize,
    sidecars: Vec<PathBuf>,
}

impl Copies {
    /// Creates an empty set of copies below `directory`.
    pub fn new(directory: PathBuf) -> Self {
        Self {
            directory,
            made: 0,
            sidecars: Vec::new(),
        }
    }

    /// Creates the missing copies of the first `instances` instances.
    pub fn prepare(&mut self, workload: &Workload, instances: usize) -> Result<()> {
        if instances <= self.made {
            return Ok(());
        }
        let missing = workload.file_bytes(instances) - workload.file_bytes(self.made);
        std::fs::create_dir_all(&self.directory).map_err(Error::io("create", &self.directory))?;
        disk::require(&self.directory, missing)?;
        for instance in self.made..instances {
            let directory = self.directory_of(instance);
            std::fs::create_dir(&directory).map_err(Error::io("create", &directory))?;
            for file in workload.files_of(instance) {
                disk::copy_in_pieces(&file.path, &self.path(instance, &file.path))?;
            }
            self.made = instance + 1;
        }
        Ok(())
    }

    /// Number of instances that have copies.
    pub fn made(&self) -> usize {
        self.made
    }

    /// Files that an instance loads with a method: the originals, or its copies.
    pub fn files(&self, workload: &Workload, method: Method, instance: usize) -> Vec<PathBuf> {
        let files = workload.files_of(instance);
        if method.copies_files() {
            files.map(|file| self.path(instance, &file.path)).collect()
        } else {
            files.map(|file| file.path.clone()).collect()
        }
    }

    /// Writes a sidecar beside every copy, as after the download of a model with its sidecar.
    pub fn add_sidecars(&mut self, workload: &Workload) -> Result<()> {
        let mut written = Vec::new();
        for file in &workload.files {
            written.push(methods::tetris::write_sidecar(&file.path)?);
        }
        let result = self.spread(workload, &written);
        for sidecar in written {
            std::fs::remove_file(&sidecar).map_err(Error::io("remove", &sidecar))?;
        }
        result
    }

    fn spread(&mut self, workload: &Workload, written: &[PathBuf]) -> Result<()> {
        for instance in 0..self.made {
            for &file in &workload.patterns[instance % workload.patterns.len()] {
                let target = self.path(instance, &written[file]);
                std::fs::copy(&written[file], &target).map_err(Error::io("write", &target))?;
                self.sidecars.push(target);
            }
        }
        Ok(())
    }

    /// Removes the sidecars, so that the files are unknown again.
    pub fn remove_sidecars(&mut self) -> Result<()> {
        for sidecar in self.sidecars.drain(..) {
            std::fs::remove_file(&sidecar).map_err(Error::io("remove", &sidecar))?;
        }
        Ok(())
    }

    fn directory_of(&self, instance: usize) -> PathBuf {
        self.directory.join(instance.to_string())
    }

    fn path(&self, instance: usize, original: &Path) -> PathBuf {
        self.directory_of(instance)
            .join(original.file_name().unwrap_or(original.as_os_str()))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // The parent directory is removed later as well.
        let _ = disk::remove_tree(&self.directory);
    }
}
