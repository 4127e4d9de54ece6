//! The names in a mounted folder.

use std::collections::BTreeMap;

use tetris_loader::sidecar;

use crate::error::TableError;
use crate::folder::FolderFile;

/// A node of the tree. Its number is one less than its inode.
#[derive(Debug)]
pub(crate) enum Node {
    Folder(FolderNode),
    /// A file, by its index.
    File(usize),
    /// The sidecar of a file, by the file's index.
    Sidecar(usize),
}

#[derive(Debug, Default)]
pub(crate) struct FolderNode {
    /// Number of the folder that it is in; the root's is its own.
    pub(crate) parent: usize,
    pub(crate) entries: BTreeMap<String, usize>,
    /// Entries found by their names and not listed, so that a copy of the folder is the model.
    pub(crate) unlisted: BTreeMap<String, usize>,
}

/// The folders and files of a model. Node 0 is the root.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
}

impl Tree {
    /// The tree of `files`.
    ///
    /// # Errors
    /// When a path is a file and a folder, which a bucket can have.
    pub(crate) fn new(files: &[FolderFile]) -> Result<Self, TableError> {
        let mut tree = Self {
            nodes: vec![Node::Folder(FolderNode::default())],
        };
        for (index, file) in files.iter().enumerate() {
            tree.add(&file.entry.path, Node::File(index))?;
        }
        for (index, file) in files.iter().enumerate() {
            if file.entry.header.is_some() && file.entry.manifest.is_some() {
                tree.add_sidecar(&file.entry.path, index)?;
            }
        }
        Ok(tree)
    }

    /// The node of this number.
    pub(crate) fn node(&self, number: usize) -> Option<&Node> {
        self.nodes.get(number)
    }

    /// The folder of this number.
    pub(crate) fn folder(&self, number: usize) -> Option<&FolderNode> {
        match self.nodes.get(number)? {
            Node::Folder(folder) => Some(folder),
            _ => None,
        }
    }

    /// The number of the node called `name` in a folder.
    pub(crate) fn find(&self, folder: usize, name: &str) -> Option<usize> {
        let folder = self.folder(folder)?;
        let entry = folder.entries.get(name);
        entry.or_else(|| folder.unlisted.get(name)).copied()
    }

    fn add(&mut self, path: &str, node: Node) -> Result<(), TableError> {
        let (folder, name) = self.folder_of(path)?;
        let number = self.nodes.len();
        self.nodes.push(node);
        let entry = folder_mut(&mut self.nodes, folder)
            .and_then(|folder| folder.entries.insert(name.to_owned(), number));
        if entry.is_some() {
            return Err(file_and_folder(path));
        }
        Ok(())
    }

    fn add_sidecar(&mut self, path: &str, index: usize) -> Result<(), TableError> {
        let (folder, name) = self.folder_of(path)?;
        let number = self.nodes.len();
        self.nodes.push(Node::Sidecar(index));
        let name = sidecar::path_of(name.as_ref());
        if let Some(folder) = folder_mut(&mut self.nodes, folder) {
            let name = name.to_string_lossy().into_owned();
            folder.unlisted.insert(name, number);
        }
        Ok(())
    }

    /// The folder that a file is in, made where it is not there, and the file's name.
    fn folder_of<'p>(&mut self, path: &'p str) -> Result<(usize, &'p str), TableError> {
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut parent = 0;
        for name in folders.split('/').filter(|name| !name.is_empty()) {
            let number = self.nodes.len();
            let folder =
                folder_mut(&mut self.nodes, parent).ok_or_else(|| file_and_folder(path))?;
            let entry = *folder.entries.entry(name.to_owned()).or_insert(number);
            if entry == number {
                self.nodes.push(Node::Folder(FolderNode {
                    parent,
                    ..FolderNode::default()
                }));
            }
            parent = entry;
        }
        match self.folder(parent) {
            Some(_) => Ok((parent, name)),
            None => Err(file_and_folder(path)),
        }
    }
}

fn folder_mut(nodes: &mut [Node], number: usize) -> Option<&mut FolderNode> {
    match nodes.get_mut(number)? {
        Node::Folder(folder) => Some(folder),
        _ => None,
    }
}

fn file_and_folder(path: &str) -> TableError {
    TableError::Path {
        path: path.escape_default().to_string(),
        problem: "a part of it is a file and a folder",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(paths: &[&str]) -> Result<Tree, TableError> {
        let mut tree = Tree {
            nodes: vec![Node::Folder(FolderNode::default())],
        };
        for (index, path) in paths.iter().enumerate() {
            tree.add(path, Node::File(index))?;
        }
        Ok(tree)
    }

    #[test]
    fn folders_are_made_once_and_know_the_folder_above() {
        let mut tree = tree(&["a/b/x", "a/b/y", "a/z", "w"]).unwrap();
        tree.add_sidecar("a/b/x", 0).unwrap();
        let a = tree.find(0, "a").unwrap();
        let b = tree.find(a, "b").unwrap();
        assert_eq!(
            (
                tree.folder(b).unwrap().parent,
                tree.folder(a).unwrap().parent
            ),
            (a, 0)
        );
        let names: Vec<_> = tree.folder(b).unwrap().entries.keys().collect();
        assert_eq!(names, ["x", "y"]);
        let sidecar = tree.find(b, "x.tetris").unwrap();
        assert!(matches!(tree.node(sidecar), Some(Node::Sidecar(0))));
        assert!(matches!(
            tree.node(tree.find(0, "w").unwrap()),
            Some(Node::File(3))
        ));
        assert_eq!(tree.find(0, "x"), None);
    }

    #[test]
    fn a_path_that_is_a_file_and_a_folder_is_refused() {
        for paths in [["a", "a/b"], ["a/b", "a"], ["a/b/c", "a/b"]] {
            let error = tree(&paths).unwrap_err().to_string();
            assert!(error.contains("a file and a folder"), "{error}");
        }
    }
}
