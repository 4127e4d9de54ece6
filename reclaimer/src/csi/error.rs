//! Errors of volumes, and their gRPC status codes.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use tonic::{Code, Status};

use super::namespaces::NamespaceError;
use crate::mount::DirectoryError;

/// The reason a volume is not published, or not removed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// A field that every such request has is not there.
    #[error("`{field}` is missing")]
    Missing {
        /// The field.
        field: &'static str,
    },
    /// A field has a value that it cannot have.
    #[error("`{field}`: expected {expected}, found {found}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// Permitted values.
        expected: String,
        /// The value.
        found: String,
    },
    /// The pod uses an unknown attribute.
    #[error("unknown volume attributes {found}; this driver knows `store`, `content` and `model`")]
    UnknownAttributes {
        /// Their names.
        found: String,
    },
    /// The container runtime would make the container's view of the mount writable again.
    #[error("the volume is read-only: set `readOnly: true` in the pod's `csi` volume")]
    Writable,
    /// The administrator gave the namespace no store, or not this one.
    #[error("namespace `{namespace}` may not use {wanted}; it may use {allowed}")]
    NotAllowed {
        /// The pod's namespace.
        namespace: String,
        /// The pod's request.
        wanted: String,
        /// Its permitted requests.
        allowed: String,
    },
    /// The identity of the pod's namespace cannot be determined now.
    #[error(
        "cannot find out which namespace `{namespace}` is, and so whose store the pod gets: {source}"
    )]
    Namespace {
        /// The pod's namespace.
        namespace: String,
        /// The reason.
        source: NamespaceError,
    },
    /// There are as many stores as there may be.
    #[error(
        "there are stores of {limit} living namespaces already, which is `csi.per_namespace.limit`; raise it, or give namespace `{namespace}` a store of its own in `stores`"
    )]
    Limit {
        /// The limit.
        limit: usize,
        /// The pod's namespace.
        namespace: String,
    },
    /// The store of this namespace would be one that belongs to others.
    #[error("the store of namespace `{namespace}` would be `{}`, and that is taken by store `{other}`; change `csi.per_namespace`", path.display())]
    Taken {
        /// The pod's namespace.
        namespace: String,
        /// Its store's name or path.
        path: PathBuf,
        /// The store whose it is.
        other: String,
    },
    /// The tmpfs of the stores is gone.
    #[error("no tmpfs is mounted at `{}`; the daemon mounts it when it starts", path.display())]
    NoMount {
        /// Its mount point.
        path: PathBuf,
    },
    /// The Python package is not there after it was mounted.
    #[error("the Python package is not at `{}` after mounting; does something else mount there?", path.display())]
    NoPackage {
        /// Its mount point.
        path: PathBuf,
    },
    /// The store is not there, or not usable.
    #[error("store `{name}` cannot be used: {source}")]
    Store {
        /// Its name.
        name: String,
        /// The reason.
        source: DirectoryError,
    },
    /// The model is not on this node yet. The kubelet asks again.
    #[error("model `{model}` is not on this node yet: {progress}")]
    Waiting {
        /// The model.
        model: String,
        /// Progress, or the reason of a failure.
        progress: String,
    },
    /// A pod without a trust domain takes no one's word for a model.
    #[error("a pod gets no model here: {because}")]
    NoDomain {
        /// The reason that the pod has no domain.
        because: String,
    },
    /// The process with the models cannot be asked.
    #[error("the node's broker cannot be asked for model `{model}`: {problem}")]
    NoBroker {
        /// The model.
        model: String,
        /// The reason.
        problem: String,
    },
    /// Something else is mounted at the target.
    #[error("`{}` is taken by {found}; unpublish it first", target.display())]
    Occupied {
        /// The target.
        target: PathBuf,
        /// The object there.
        found: String,
    },
    /// The new mount was not read-only or not the store, and was removed again.
    #[error("`{}` is {found} after mounting, expected a read-only mount; it was unmounted", target.display())]
    NotReadOnly {
        /// The target.
        target: PathBuf,
        /// The object there.
        found: String,
    },
    /// A system call failed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// The failed action.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl VolumeError {
    pub(super) fn invalid(
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            field,
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(super) fn io<E: Into<io::Error>>(
        action: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::Io {
            action,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// The code that the CSI specification has for it.
    pub fn code(&self) -> Code {
        match self {
            Self::Missing { .. }
            | Self::Invalid { .. }
            | Self::UnknownAttributes { .. }
            | Self::Writable => Code::InvalidArgument,
            Self::NotAllowed { .. } => Code::PermissionDenied,
            Self::Namespace { .. } | Self::Waiting { .. } | Self::NoBroker { .. } => {
                Code::Unavailable
            }
            Self::Limit { .. } => Code::ResourceExhausted,
            Self::Occupied { .. } => Code::AlreadyExists,
            Self::Taken { .. }
            | Self::NoMount { .. }
            | Self::Store { .. }
            | Self::NoDomain { .. } => Code::FailedPrecondition,
            Self::NoPackage { .. } | Self::NotReadOnly { .. } | Self::Io { .. } => Code::Internal,
        }
    }
}

impl From<VolumeError> for Status {
    fn from(error: VolumeError) -> Self {
        Self::new(error.code(), error.to_string())
    }
}
