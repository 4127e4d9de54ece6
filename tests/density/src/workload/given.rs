//! Groups of the user's models.

use std::path::{Path, PathBuf};

use super::{Kind, ModelFile, Workload};
use crate::error::{Error, Result};

/// Groups the models at `paths`: replicas of the first, or all of them by turns.
pub fn build(kind: Kind, paths: &[PathBuf]) -> Result<Workload> {
    let paths = if kind == Kind::Replicas {
        &paths[..1]
    } else {
        paths
    };
    let mut files = Vec::new();
    let mut patterns = Vec::new();
    for path in paths {
        let parts = weight_files(path)?;
        patterns.push((files.len()..files.len() + parts.len()).collect());
        for part in parts {
            let name = part
                .file_name()
                .unwrap_or(part.as_os_str())
                .to_string_lossy()
                .into_owned();
            files.push(ModelFile::examine(&name, &part)?);
        }
    }
    let description = match kind {
        Kind::Replicas => "every instance loads the same model".to_owned(),
        _ => format!("{} models by turns", paths.len()),
    };
    Ok(Workload {
        name: kind.name().to_owned(),
        description,
        files,
        patterns,
        distinct_bytes: None,
    })
}

/// Weight files of a model: the file itself, or all of a directory in the order of their names.
fn weight_files(path: &Path) -> Result<Vec<PathBuf>> {
    let path = path.canonicalize().map_err(Error::io("find", path))?;
    if !path.is_dir() {
        return Ok(vec![path]);
    }
    let mut files = Vec::new();
    for entry in path.read_dir().map_err(Error::io("list", &path))? {
        let file = entry.map_err(Error::io("list", &path))?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "safetensors")
        {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::Model {
            path,
            reason: "the directory has no *.safetensors file".into(),
        });
    }
    Ok(files)
}
