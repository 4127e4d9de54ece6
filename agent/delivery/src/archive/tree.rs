//! The files of all archives of a source, as they lie over each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Unpacked;
use super::table::{ArchiveTable, ArchivedFile};
use crate::error::PullError;
use crate::listing::RemoteFile;
use crate::options::PullOptions;
use crate::pulled_file::PulledFile;
use crate::selection::{is_safetensors, selects};

/// Most links on the way to a file.
const MAX_LINKS: usize = 8;

/// A file of an archive, pulled if it is wanted.
pub(super) struct LayerFile {
    pub(super) file: ArchivedFile,
    pub(super) pulled: Option<PulledFile>,
}

/// The files of an archive, in the order of their paths.
pub(super) struct Layer {
    pub(super) files: Vec<LayerFile>,
    /// As of [`ArchiveTable::removed`].
    pub(super) removed: Vec<String>,
}

impl ArchiveTable {
    /// The list of an archive whose files are bound.
    pub(super) fn of(layer: &Layer) -> Self {
        let files = layer.files.iter().map(|LayerFile { file, pulled }| {
            let entry = pulled.as_ref().map(PulledFile::entry);
            let manifest = entry.as_ref().and_then(|entry| entry.manifest);
            let header = entry.as_ref().and_then(|entry| entry.header);
            ArchivedFile {
                manifest: manifest.map(|id| id.to_string()),
                header: header.map(|id| id.to_string()),
                ..ArchivedFile::new(file.path.clone(), file.size, file.link.clone())
            }
        });
        Self {
            files: files.collect(),
            removed: layer.removed.clone(),
        }
    }
}

/// The files of the archives so far, the uppermost first.
pub(super) struct Tree<'l> {
    /// Paths of files in no archive.
    listed: BTreeSet<&'l str>,
    files: BTreeMap<String, LayerFile>,
    removed: Vec<String>,
    pub(super) has_safetensors: bool,
}

impl<'l> Tree<'l> {
    /// The tree with the files of no archive at `listed`.
    pub(super) fn new(listed: impl Iterator<Item = &'l str>) -> Self {
        let listed: BTreeSet<_> = listed.collect();
        Self {
            has_safetensors: listed.iter().any(|path| is_safetensors(path)),
            listed,
            files: BTreeMap::new(),
            removed: Vec::new(),
        }
    }

    /// Returns true if a file at `path` in the archives below is not seen.
    pub(super) fn hides(&self, path: &str) -> bool {
        let removes = |removed: &String| {
            let rest = path.strip_prefix(removed.as_str());
            rest.is_some_and(|rest| removed.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        self.listed.contains(path)
            || self.files.contains_key(path)
            || self.removed.iter().any(removes)
    }

    /// Adds the files of the next archive below.
    pub(super) fn add(&mut self, layer: Layer, source_name: &str) -> Result<(), PullError> {
        let Layer { mut files, removed } = layer;
        files.retain(|file| !self.hides(&file.file.path));
        super::require_few(self.files.len() + files.len(), source_name)?;
        super::require_few(self.removed.len() + removed.len(), source_name)?;
        self.has_safetensors |= files.iter().any(|file| is_safetensors(&file.file.path));
        let files = files.into_iter().map(|file| (file.file.path.clone(), file));
        self.files.extend(files);
        self.removed.extend(removed);
        Ok(())
    }

    /// The pulled files, with the links to them.
    pub(super) fn unpacked(
        mut self,
        options: &PullOptions,
        source_name: &str,
    ) -> Result<Unpacked, PullError> {
        let has_safetensors = self.has_safetensors;
        let is_selected = |path: &str| selects(options, path, has_safetensors);
        let links = self.files.values().filter(|file| {
            let path = &file.file.path;
            file.file.link.is_some() && is_selected(path)
        });
        let links = links.filter_map(|link| {
            let path = link.file.path.as_str();
            let target = self.target(path)?;
            Some(linked(path, target, source_name))
        });
        let links = links.collect::<Result<Vec<_>, _>>()?;
        for link in links {
            if let Some(file) = self.files.get_mut(&link.report.file.path) {
                file.pulled = Some(link);
            }
        }
        let mut unpacked = Unpacked {
            files: Vec::new(),
            left_out: Vec::new(),
        };
        for (path, file) in self.files {
            match file.pulled.filter(|_| is_selected(&path)) {
                Some(pulled) => unpacked.files.push(pulled),
                None => unpacked.left_out.push(path),
            }
        }
        Ok(unpacked)
    }

    /// The pulled file that a link leads to.
    fn target(&self, link: &str) -> Option<&PulledFile> {
        let mut path = link;
        for _ in 0..MAX_LINKS {
            let file = self.files.get(path)?;
            match &file.file.link {
                Some(target) => path = target,
                None => return file.pulled.as_ref(),
            }
        }
        None
    }
}

/// A link as a file with the content of its target.
fn linked(path: &str, target: &PulledFile, source_name: &str) -> Result<PulledFile, PullError> {
    let file = &target.report.file;
    let link = RemoteFile {
        path: path.to_owned(),
        address: format!("{source_name}/{path}"),
        ..file.clone()
    };
    if link.kind() != file.kind() {
        return Err(PullError::Listing {
            address: link.address,
            problem: format!(
                "it is a link to `{}`, expected a name with the same ending; copy the files of the model into the image without links, e.g. with `cp -L`",
                file.path
            ),
        });
    }
    // The target holds the objects.
    let header = target.header.clone();
    Ok(PulledFile::known(
        &link,
        target.report.manifest,
        header,
        Vec::new(),
    ))
}

/// The path of a member below `root`.
pub(super) fn below<'p>(root: &str, path: &'p str) -> Option<&'p str> {
    let mut path = path;
    while let Some(rest) = path.strip_prefix("./").or_else(|| path.strip_prefix('/')) {
        path = rest;
    }
    path.strip_prefix(root).filter(|path| !path.is_empty())
}

/// The path below `root` of the target of a link in `folder`. Empty, which is the path of no file, where it lies elsewhere.
pub(super) fn resolve(root: &str, folder: &str, target: &str) -> String {
    let folder = if target.starts_with('/') { "" } else { folder };
    let mut parts = Vec::new();
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    below(root, &parts.join("/")).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(paths: &[&str], removed: &[&str]) -> Layer {
        let file = |path: &&str| LayerFile {
            file: ArchivedFile::new((*path).to_owned(), 1, None),
            pulled: None,
        };
        Layer {
            files: paths.iter().map(file).collect(),
            removed: removed.iter().map(|&path| path.to_owned()).collect(),
        }
    }

    #[test]
    fn upper_files_hide_lower_ones_and_whiteouts_remove_them() {
        let mut tree = Tree::new(["listed"].into_iter());
        tree.add(layer(&["a", "d/x"], &["b", "d"]), "s").unwrap();
        tree.add(layer(&["a", "b", "b/c", "bc", "d/y", "listed"], &[]), "s")
            .unwrap();
        let paths: Vec<_> = tree.files.keys().map(String::as_str).collect();
        assert_eq!(paths, ["a", "bc", "d/x"]);
        tree.add(layer(&[], &[""]), "s").unwrap();
        assert!(tree.hides("anything"));
    }

    #[test]
    fn links_are_followed_within_the_model() {
        let to = |folder, target| resolve("models/", folder, target);
        assert_eq!(to("models/a", "../b/x"), "b/x");
        assert_eq!(to("models", "/models/x"), "x");
        assert_eq!(to("", "./models/x"), "x");
        for elsewhere in ["../../etc/passwd", "/etc/passwd", "../modelsx", "/models"] {
            assert_eq!(to("models", elsewhere), "", "{elsewhere}");
        }
    }
}
