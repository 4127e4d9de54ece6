//! Problems of a header, each with its next step.

use std::io;
use std::path::{Path, PathBuf};

use safetensors::Dtype;

/// The reason that the header of a file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file could not be read.
    #[error("cannot read the safetensors header of `{}`", path.display())]
    Read {
        /// The file as the caller named it.
        path: PathBuf,
        /// The system's error; [`io::ErrorKind::UnexpectedEof`] if the file is shorter than the
        /// caller said.
        source: io::Error,
    },
    /// The file was read, but its header is not valid.
    #[error("`{}` has no valid safetensors header; {}", path.display(), source.next_step())]
    Invalid {
        /// The file as the caller named it.
        path: PathBuf,
        /// The problem.
        source: HeaderProblem,
    },
}

impl HeaderError {
    /// The file as the caller named it.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read { path, .. } | Self::Invalid { path, .. } => path,
        }
    }
}

/// A problem of a header. Offsets and lengths are in bytes; names come from the file and are quoted
/// and cut when shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderProblem {
    /// There are fewer bytes than the length field, or than the header it announces.
    #[error("expected at least {expected} bytes, found {found}")]
    TooShort {
        /// Bytes needed.
        expected: u64,
        /// Bytes there.
        found: u64,
    },
    /// The file is a pointer of git-lfs, which stands for the model until that is fetched.
    #[error("expected a model, found a pointer of git-lfs of {file} bytes")]
    LfsPointer {
        /// Length of the file.
        file: u64,
    },
    /// The length field exceeds [`MAX_HEADER_LEN`](super::MAX_HEADER_LEN).
    #[error("expected a header of at most {limit} bytes, found a length of {found}")]
    TooLarge {
        /// The length field.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The header would end behind the end of the file.
    #[error("expected a file with a header of {header} bytes, found {file} bytes in all")]
    LengthBeyondFile {
        /// The length field.
        header: u64,
        /// Length of the file.
        file: u64,
    },
    /// The header is not text.
    #[error("expected UTF-8, found an invalid byte at offset {offset} of the file")]
    NotUtf8 {
        /// The first byte that is not UTF-8, counted from the start of the file.
        offset: u64,
    },
    /// The header is not JSON, or not of the form that the format prescribes.
    #[error("{}: {detail}", place(entry.as_deref()))]
    Json {
        /// The tensor (or `__metadata__`) whose entry is wrong, where it is known.
        entry: Option<String>,
        /// The expected and the found, with line and column.
        detail: String,
    },
    /// Two entries have one name; a reader that keeps the last and one that keeps the first see different weights.
    #[error("expected unique names, found {} twice", quoted(name))]
    DuplicateName {
        /// The tensor, or `__metadata__`.
        name: String,
    },
    /// Two entries of `__metadata__` have one key.
    #[error(
        "expected unique keys in \"__metadata__\", found {} twice",
        quoted(key)
    )]
    DuplicateMetadataKey {
        /// The key.
        key: String,
    },
    /// A tensor's name exceeds [`MAX_NAME_LEN`](super::MAX_NAME_LEN).
    #[error(
        "expected names of at most {limit} bytes, found {} of {found} bytes",
        quoted(name)
    )]
    LongName {
        /// The tensor.
        name: String,
        /// Length of its name.
        found: u64,
        /// The limit.
        limit: u64,
    },
    /// The file has more tensors than [`MAX_TENSORS`](super::MAX_TENSORS).
    #[error("expected at most {limit} tensors, found more")]
    TooManyTensors {
        /// The limit.
        limit: u64,
    },
    /// `__metadata__` has more entries than [`MAX_METADATA_ENTRIES`](super::MAX_METADATA_ENTRIES).
    #[error("expected at most {limit} entries in \"__metadata__\", found more")]
    TooMuchMetadata {
        /// The limit.
        limit: u64,
    },
    /// A tensor has more dimensions than [`MAX_RANK`](super::MAX_RANK).
    #[error(
        "tensor {}: expected at most {limit} dimensions, found more",
        quoted(name)
    )]
    RankTooLarge {
        /// The tensor.
        name: String,
        /// The limit.
        limit: u64,
    },
    /// A tensor's dtype is none that the format knows.
    #[error(
        "tensor {}: expected a dtype such as \"F32\" or \"BF16\", found {}",
        quoted(name),
        quoted(found)
    )]
    UnknownDtype {
        /// The tensor.
        name: String,
        /// Its dtype.
        found: String,
    },
    /// A tensor does not begin where the one before it ends: they overlap, or there is a hole between them.
    #[error(
        "tensor {}: expected offsets that begin at {expected_begin}, found [{found_begin}, {found_end}] ({})",
        quoted(name),
        if found_begin < expected_begin { "an overlap" } else { "a hole" }
    )]
    Offsets {
        /// The tensor.
        name: String,
        /// End of the tensor before it, or zero.
        expected_begin: u64,
        /// Its first offset.
        found_begin: u64,
        /// Its second offset.
        found_end: u64,
    },
    /// A tensor ends before it begins.
    #[error(
        "tensor {}: expected offsets in ascending order, found [{begin}, {end}]",
        quoted(name)
    )]
    Reversed {
        /// The tensor.
        name: String,
        /// Its first offset.
        begin: u64,
        /// Its second offset.
        end: u64,
    },
    /// The number of elements, or of bits, is beyond 64 bits.
    #[error(
        "tensor {}: expected a size below 2^64 bits, found shape {shape:?} of {dtype:?}",
        quoted(name)
    )]
    Overflow {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: Dtype,
        /// Its shape.
        shape: Vec<u64>,
    },
    /// A tensor of a dtype below one byte does not fill its last byte.
    #[error(
        "tensor {}: expected whole bytes, found {bits} bits of {dtype:?}",
        quoted(name)
    )]
    PartialByte {
        /// The tensor.
        name: String,
        /// Its dtype.
        dtype: Dtype,
        /// Its size in bits.
        bits: u64,
    },
    /// A tensor's offsets do not span what its dtype and shape say.
    #[error(
        "tensor {}: expected {expected} bytes by dtype and shape, found {found} by offsets",
        quoted(name)
    )]
    SizeMismatch {
        /// The tensor.
        name: String,
        /// Bytes by dtype and shape.
        expected: u64,
        /// Bytes by offsets.
        found: u64,
    },
    /// The tensors end before the file does, or behind it.
    #[error("expected {expected} bytes of tensors behind the header, found {found}")]
    Uncovered {
        /// Bytes that the tensors take.
        expected: u64,
        /// Bytes that the file has behind its header.
        found: u64,
    },
}

impl HeaderProblem {
    /// The next step, as half a sentence.
    pub fn next_step(&self) -> &'static str {
        match self {
            Self::LfsPointer { .. } => "fetch the model with `git lfs pull` in its repository",
            Self::TooShort { .. }
            | Self::TooLarge { .. }
            | Self::LengthBeyondFile { .. }
            | Self::NotUtf8 { .. }
            | Self::Json { entry: None, .. }
            | Self::Uncovered { .. } => {
                "the file is truncated or not a safetensors file; download it again"
            }
            Self::TooManyTensors { .. }
            | Self::TooMuchMetadata { .. }
            | Self::RankTooLarge { .. }
            | Self::LongName { .. } => "the file exceeds a limit; split it or save it differently",
            Self::UnknownDtype { .. } => {
                "the file is damaged or newer than this program; download it again or update"
            }
            _ => {
                "the writer of the file broke the format; save it again with the safetensors library"
            }
        }
    }
}

/// Most characters of a string from a file that are shown.
const SHOWN_CHARS: usize = 200;

/// `text` in quotes, control characters escaped, cut after [`SHOWN_CHARS`]: it goes to terminals and logs, and a stranger wrote it.
pub(crate) fn quoted(text: &str) -> String {
    let (shown, hidden) = cut(text, SHOWN_CHARS);
    if hidden == 0 {
        return format!("{shown:?}");
    }
    format!("{shown:?} and {hidden} more bytes")
}

/// `text` cut and with control characters escaped, for a message that already is a sentence.
pub(super) fn printable(text: &str) -> String {
    // Twice as long: the parser's own words come around what it quotes from the file
    let (shown, hidden) = cut(text, SHOWN_CHARS.saturating_mul(2));
    let mut printable = String::new();
    for character in shown.chars() {
        if character.is_control() {
            printable.extend(character.escape_default());
        } else {
            printable.push(character);
        }
    }
    if hidden > 0 {
        printable.push_str(" and more");
    }
    printable
}

/// The first `chars` characters, and how many bytes follow them.
fn cut(text: &str, chars: usize) -> (&str, usize) {
    text.char_indices()
        .nth(chars)
        .and_then(|(len, _)| text.split_at_checked(len))
        .map_or((text, 0), |(shown, hidden)| (shown, hidden.len()))
}

fn place(entry: Option<&str>) -> String {
    entry.map_or_else(
        || "header".to_owned(),
        |name| format!("entry {}", quoted(name)),
    )
}
