//! The files of a source that a model needs.

use crate::error::PullError;
use crate::listing::{Listing, RemoteFile};
use crate::options::PullOptions;

/// Endings of weights in other formats. They are left out where there is a safetensors file.
const OTHER_WEIGHTS: [&str; 14] = [
    ".bin",
    ".ckpt",
    ".gguf",
    ".h5",
    ".mlmodel",
    ".msgpack",
    ".npz",
    ".onnx",
    ".onnx_data",
    ".ot",
    ".pb",
    ".pt",
    ".pth",
    ".tflite",
];
/// The ending of sidecars, which speak of other files.
pub(crate) const SIDECAR: &str = ".tetris";

/// Files to pull, and paths left out.
#[derive(Debug)]
pub(crate) struct Selection<'l> {
    pub(crate) files: Vec<&'l RemoteFile>,
    pub(crate) left_out: Vec<String>,
}

impl<'l> Selection<'l> {
    /// The files of a listing that the options name.
    ///
    /// # Errors
    /// When nothing is selected, and there are no archives.
    pub(crate) fn new(
        source: &str,
        listing: &'l Listing,
        options: &PullOptions,
    ) -> Result<Self, PullError> {
        let paths = || listing.files.iter().map(|file| file.path.as_str());
        let has_safetensors = paths().any(is_safetensors);
        let is_selected = |file: &&RemoteFile| selects(options, &file.path, has_safetensors);
        let (files, others): (Vec<_>, Vec<_>) = listing.files.iter().partition(is_selected);
        if files.is_empty() && listing.archives.is_empty() {
            return Err(PullError::Nothing {
                source_name: source.to_owned(),
                all: others.len(),
            });
        }
        Ok(Self {
            files,
            left_out: others.into_iter().map(|file| file.path.clone()).collect(),
        })
    }
}

/// Returns true for the path of a safetensors file.
pub(crate) fn is_safetensors(path: &str) -> bool {
    path.ends_with(".safetensors")
}

/// Returns true for a path that the options name. Without a pattern, each one but those of hidden files, of
/// sidecars, and of weights in other formats beside safetensors files.
pub(crate) fn selects(options: &PullOptions, path: &str, has_safetensors: bool) -> bool {
    let matches = |patterns: &[glob::Pattern]| patterns.iter().any(|pattern| pattern.matches(path));
    let included = if options.include.is_empty() {
        let is_hidden = path.split('/').any(|part| part.starts_with('.'));
        let is_other = OTHER_WEIGHTS.iter().any(|ending| path.ends_with(ending));
        !(is_hidden || has_safetensors && is_other)
    } else {
        matches(&options.include)
    };
    included && !matches(&options.exclude) && !path.ends_with(SIDECAR)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(paths: &[&str]) -> Listing {
        let file = |path: &&str| RemoteFile {
            path: (*path).to_owned(),
            size: 1,
            sha256: None,
            checksum: None,
            version: None,
            modified: None,
            address: (*path).to_owned(),
        };
        Listing::new("s", None, paths.iter().map(file).collect()).unwrap()
    }

    fn selected(paths: &[&str], options: &PullOptions) -> Vec<String> {
        let listing = listing(paths);
        let selection = Selection::new("s", &listing, options).unwrap();
        selection
            .files
            .iter()
            .map(|file| file.path.clone())
            .collect()
    }

    #[test]
    fn a_model_is_pulled_without_its_copies_in_other_formats() {
        let paths = [
            ".gitattributes",
            "config.json",
            "model.safetensors",
            "model.safetensors.tetris",
            "onnx/model.onnx",
            "original/consolidated.00.pth",
            "pytorch_model.bin",
            "tokenizer/merges.txt",
        ];
        let options = PullOptions::default();
        let expected = ["config.json", "model.safetensors", "tokenizer/merges.txt"];
        assert_eq!(selected(&paths, &options), expected);
        // Where there is no safetensors file, the others are the model.
        assert_eq!(
            selected(&["m.gguf", "x.bin"], &options),
            ["m.gguf", "x.bin"]
        );
    }

    #[test]
    fn patterns_decide_where_they_are_given() {
        let pattern = |text| glob::Pattern::new(text).unwrap();
        let paths = ["a/x.bin", "a/y.json", "z.safetensors"];
        let mut options = PullOptions {
            include: vec![pattern("*.bin"), pattern("a/*")],
            ..PullOptions::default()
        };
        assert_eq!(selected(&paths, &options), ["a/x.bin", "a/y.json"]);
        options.exclude = vec![pattern("*.json")];
        assert_eq!(selected(&paths, &options), ["a/x.bin"]);
        options.include = vec![pattern("nothing")];
        let listing = listing(&paths);
        let error = Selection::new("s", &listing, &options).unwrap_err();
        assert!(
            matches!(error, PullError::Nothing { all: 3, .. }),
            "{error}"
        );
    }
}
