//! Errors of a pull, each with the next step.

use std::path::PathBuf;
use std::time::Duration;

use tetris_agent::NodePublishError;
use tetris_loader::LoadError;
use tetris_store_layout::{PublishError, StoreError};
use thiserror::Error;

/// A model could not be pulled. What was published before stays in the store, and the same pull goes on
/// from there.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PullError {
    /// The name is not one of a source.
    #[error(
        "`{name}` is no source: {problem}; expected hf://ORG/MODEL[@REVISION], s3://, gs:// or az://BUCKET/FOLDER, oci://REGISTRY/REPO[:TAG], https://HOST/FILE, or a folder"
    )]
    Name {
        /// The name, without secrets.
        name: String,
        /// The problem.
        problem: String,
    },
    /// A pattern of file names is invalid.
    #[error("`{pattern}` is no pattern of file names: {problem}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// The problem.
        problem: String,
    },
    /// The client of a source could not be set up.
    #[error("cannot set up a client for `{source_name}`: {problem}")]
    Client {
        /// The source.
        source_name: String,
        /// The problem.
        problem: String,
    },
    /// The source refuses, and asking again would not help.
    #[error("`{address}`: {status}; {remedy}")]
    Refused {
        /// The address, without a query.
        address: String,
        /// Status and reason.
        status: String,
        /// The next step.
        remedy: &'static str,
    },
    /// The source did not answer as it should, in all attempts.
    #[error(
        "`{address}` failed {attempts} times in a row, the last time: {reason}; run the same command again, which goes on from here"
    )]
    GaveUp {
        /// The address.
        address: String,
        /// Number of attempts.
        attempts: u32,
        /// The last reason.
        reason: String,
    },
    /// The source asks for a longer wait than a pull takes.
    #[error("`{address}` asks to wait {} s; run the same command again then, which goes on from here", wait.as_secs())]
    Busy {
        /// The address.
        address: String,
        /// The wait that it asks for.
        wait: Duration,
    },
    /// The server gives whole files only.
    #[error(
        "`{address}`: expected status 206 with a part of the file, found {found}; the server ignores ranges: download the file, and pull the folder that it is in"
    )]
    NoRanges {
        /// The address.
        address: String,
        /// The answer.
        found: String,
    },
    /// The file has become another one.
    #[error(
        "`{address}` changed while it was pulled: expected {expected}, found {found}; run the same command again"
    )]
    Changed {
        /// The address.
        address: String,
        /// Expected property.
        expected: String,
        /// Property found.
        found: String,
    },
    /// The content is not what the source promises.
    #[error(
        "`{address}`: expected {expected}, found {found}; nothing is bound to it. If another pull finds the same, the file is damaged at its source"
    )]
    Digest {
        /// The address.
        address: String,
        /// The promised digest or checksum.
        expected: String,
        /// The computed one.
        found: String,
    },
    /// The answer to a listing cannot be used.
    #[error("`{address}`: {problem}")]
    Listing {
        /// The address.
        address: String,
        /// The problem.
        problem: String,
    },
    /// There is nothing to pull.
    #[error("`{source_name}` has no file to pull{}", if *.all == 0 { "" } else { " by these patterns; see them with `--list`" })]
    Nothing {
        /// The source.
        source_name: String,
        /// Number of files left out.
        all: usize,
    },
    /// The source has too many files.
    #[error("`{source_name}` has more than {limit} files; name a folder of one model")]
    TooManyFiles {
        /// The source.
        source_name: String,
        /// Most files.
        limit: usize,
    },
    /// A path at the source is not taken.
    #[error("`{source_name}` lists the path `{path}`: {problem}")]
    Path {
        /// The source.
        source_name: String,
        /// The path, escaped.
        path: String,
        /// The problem.
        problem: &'static str,
    },
    /// The index of a model names a missing file.
    #[error(
        "`{index}` names `{shard}`, which the source does not have; the model was not uploaded completely"
    )]
    MissingShard {
        /// Path of the index.
        index: String,
        /// Path of the file.
        shard: String,
    },
    /// Nothing can be written to the source.
    #[error(
        "`{source_name}` cannot be written by a push; write sidecars with `tetris hash`, and upload them beside the model"
    )]
    NotWritable {
        /// The source.
        source_name: String,
    },
    /// An artifact cannot be pushed there.
    #[error("`{target}` is no place for an artifact; expected oci://REGISTRY/REPO:TAG")]
    NoTag {
        /// The place.
        target: String,
    },
    /// The store has no room.
    #[error(
        "the store has no room for {needed} bytes of `{address}`: {source}; free some with `tetris gc` or `tetris rm`, or make the store larger"
    )]
    Full {
        /// The address.
        address: String,
        /// Bytes of the object.
        needed: u64,
        /// The store's error.
        #[source]
        source: PublishError,
    },
    /// The store cannot be written by this process.
    #[error("the store `{}` is read-only here, and no daemon that publishes answers in it; run the pull as the store's owner, or start tetris-node", path.display())]
    ReadOnly {
        /// The store.
        path: PathBuf,
    },
    /// The node's daemon did not publish something for this process.
    #[error("`{address}`: the node's daemon did not publish it: {source}")]
    Daemon {
        /// The address.
        address: String,
        /// The daemon's reason.
        source: NodePublishError,
    },
    /// The store does not take an object.
    #[error("cannot publish: {0}")]
    Publish(#[from] PublishError),
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file's content is no model, or a local file cannot be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The machine lacks something.
    #[error("cannot {action}: {source}")]
    Machine {
        /// The action.
        action: &'static str,
        /// The kernel's error.
        #[source]
        source: std::io::Error,
    },
}

impl PullError {
    /// Returns true if the store has no room, so that the pull can go on once others need less.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Daemon { source, .. } => source.is_full(),
            _ => false,
        }
    }
}

/// The end of one attempt.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// Another attempt may help.
    Passing {
        /// The reason.
        reason: String,
        /// The wait that the source asks for.
        after: Option<Duration>,
    },
    /// None will.
    Final(PullError),
}

impl Trouble {
    /// Trouble that another attempt may help against.
    pub(crate) fn passing(reason: impl Into<String>) -> Self {
        Self::Passing {
            reason: reason.into(),
            after: None,
        }
    }

    /// The trouble of a client's `error` with the server at `address`.
    pub(crate) fn of_client(address: &str, error: &dyn std::error::Error) -> Self {
        let reason = chain(error);
        if reason.contains("invalid peer certificate") {
            return Self::Final(PullError::Refused {
                address: address.to_owned(),
                status: reason,
                remedy: "name the certificate of its authority in SSL_CERT_FILE",
            });
        }
        Self::passing(reason)
    }
}

/// An error with its causes, except those quoted already, each up to its first line: a server's
/// document may follow.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let message = error.to_string();
        let message = message.lines().next().unwrap_or_default();
        if !text.contains(message) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(message);
        }
        next = error.source();
    }
    text
}

impl<E: Into<PullError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Final(error.into())
    }
}
