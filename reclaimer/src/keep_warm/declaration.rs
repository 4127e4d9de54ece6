//! A pod's name for a model, and its text form.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Length of the longest name, in bytes.
pub const MAX_NAME_BYTES: usize = 253;

const MANIFEST: &str = "manifest:";
const SHA256: &str = "sha256:";
const DIGEST_DIGITS: usize = 64;
/// Number of characters of an input that an error repeats: a bit more than the longest valid one.
const SHOWN_CHARS: usize = 80;

/// A model as a pod names it. Its text form has neither commas nor white space, so a list can be
/// made of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Declaration {
    /// By its manifest, as `tetris hash` prints it: `manifest:<64 hex digits>`.
    Manifest(String),
    /// By the SHA-256 of its file, as Hugging Face names it: `sha256:<64 hex digits>`.
    Sha256(String),
    /// By a name that the daemon's configuration explains: anything else.
    Name(String),
}

/// The reason a text is not a [`Declaration`].
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DeclarationError {
    /// There is nothing.
    #[error("a model's name is empty: expected `manifest:<digest>`, `sha256:<digest>` or a name")]
    Empty,
    /// The part after `manifest:` or `sha256:` is not a digest.
    #[error(
        "{kind}\"{found}\": expected 64 hexadecimal digits after `{kind}`; `tetris hash` prints them"
    )]
    Digest {
        /// `manifest:` or `sha256:`.
        kind: &'static str,
        /// The beginning of the digest, escaped.
        found: String,
    },
    /// The name is too long.
    #[error("model \"{found}\" has a name of {bytes} bytes: expected at most {MAX_NAME_BYTES}")]
    Length {
        /// The beginning of the name, escaped.
        found: String,
        /// Its length.
        bytes: usize,
    },
    /// The name has a character that names do not have.
    #[error(
        "model \"{found}\" has {character:?} in its name: expected letters, digits and printable ASCII, without commas and white space"
    )]
    Character {
        /// The beginning of the name, escaped.
        found: String,
        /// The first such character.
        character: char,
    },
}

impl FromStr for Declaration {
    type Err = DeclarationError;

    /// Digits of digests may be upper or lower case; they are kept in lower case.
    fn from_str(text: &str) -> Result<Self, DeclarationError> {
        if let Some(found) = text.strip_prefix(MANIFEST) {
            digest(MANIFEST, found).map(Self::Manifest)
        } else if let Some(found) = text.strip_prefix(SHA256) {
            digest(SHA256, found).map(Self::Sha256)
        } else {
            name(text).map(Self::Name)
        }
    }
}

impl fmt::Display for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(digest) => write!(f, "{MANIFEST}{digest}"),
            Self::Sha256(digest) => write!(f, "{SHA256}{digest}"),
            Self::Name(name) => f.write_str(name),
        }
    }
}

fn digest(kind: &'static str, found: &str) -> Result<String, DeclarationError> {
    if found.len() == DIGEST_DIGITS && found.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(found.to_ascii_lowercase());
    }
    Err(DeclarationError::Digest {
        kind,
        found: shown(found),
    })
}

fn name(text: &str) -> Result<String, DeclarationError> {
    if text.is_empty() {
        return Err(DeclarationError::Empty);
    }
    if text.len() > MAX_NAME_BYTES {
        return Err(DeclarationError::Length {
            found: shown(text),
            bytes: text.len(),
        });
    }
    match text.chars().find(|character| !printable(*character)) {
        None => Ok(text.to_owned()),
        Some(character) => Err(DeclarationError::Character {
            found: shown(text),
            character,
        }),
    }
}

/// Names end up in logs and are compared by people, so nothing invisible is in them: no controls,
/// marks that turn the direction of text, or blanks without width. Letters and digits may be of any
/// script.
fn printable(character: char) -> bool {
    (character.is_ascii_graphic() && character != ',')
        || (!character.is_ascii() && character.is_alphanumeric())
}

fn shown(text: &str) -> String {
    let start: String = text.chars().take(SHOWN_CHARS).collect();
    let more = if start.len() < text.len() { "..." } else { "" };
    format!("{}{more}", start.escape_debug())
}
