//! Groups of the user's models.

use std::path::{Path, PathBuf};

use super::{Group, Kind, ModelFile, SharedPart, Workload};
use crate::error::{Error, Result};
use crate::methods::tetris::TensorDigests;

/// Prepares a group of the models at the group's paths. The instances load them by turns.
pub fn build(group: &Group) -> Result<Workload> {
    let mut files = Vec::new();
    let mut patterns = Vec::new();
    for path in &group.models {
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
    let count = group.models.len();
    let description = match group.kind {
        Kind::Family => format!("a base model and {} of its variants by turns", count - 1),
        _ if count == 1 => "every instance loads the same model".to_owned(),
        _ => format!("{count} models by turns"),
    };
    let mut workload = Workload {
        name: group.name.clone(),
        description,
        files,
        patterns,
        distinct_bytes: None,
        sharing: Vec::new(),
    };
    if count > 1 {
        compare(group, &mut workload)?;
    }
    Ok(workload)
}

/// Finds the tensors that the models have in common, by their bytes.
fn compare(group: &Group, workload: &mut Workload) -> Result<()> {
    let mut models = Vec::new();
    for pattern in &workload.patterns {
        let files = pattern.iter().map(|&file| &workload.files[file].path);
        models.push(TensorDigests::of(files)?);
    }
    workload.distinct_bytes = Some(TensorDigests::distinct_bytes(&models));
    if group.kind == Kind::Family
        && let Some((base, variants)) = models.split_first()
    {
        let names = names(&group.models);
        workload.sharing = variants
            .iter()
            .zip(names.into_iter().skip(1))
            .map(|(variant, name)| {
                let common = variant.common_with(base);
                SharedPart {
                    variant: name,
                    tensor_bytes: common.a_bytes,
                    shared_bytes: common.common_bytes,
                    shared_tensors: common.common_tensors,
                }
            })
            .collect();
    }
    Ok(())
}

/// Names of models in tables: the last part of each path, with its parent where two would be equal.
pub fn names(paths: &[PathBuf]) -> Vec<String> {
    let last = |path: &Path| {
        let name = path.file_name().unwrap_or(path.as_os_str());
        name.to_string_lossy().into_owned()
    };
    let short: Vec<String> = paths.iter().map(|path| last(path)).collect();
    paths
        .iter()
        .zip(&short)
        .map(|(path, name)| {
            let same = short.iter().filter(|other| *other == name).count();
            match path.parent().map(last) {
                Some(parent) if same > 1 && !parent.is_empty() => format!("{parent}/{name}"),
                _ => name.clone(),
            }
        })
        .collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_names_get_their_directories() {
        let paths = ["/a/model.safetensors", "/b/model.safetensors", "/c/other"];
        assert_eq!(
            names(&paths.map(PathBuf::from)),
            ["a/model.safetensors", "b/model.safetensors", "other"]
        );
    }
}
