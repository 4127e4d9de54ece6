//! Errors of Rust as the exceptions of `tetris.errors`.

use std::io::ErrorKind;

use pyo3::PyErr;
use tetris_agent::device::DeviceError;
use tetris_agent::hub::HubError;
use tetris_agent::store_location::StoreLocationError;
use tetris_agent::{LoadError, PrivateCause, ShareError, Words};
use tetris_store_layout::{MapError, PublishError, StoreError};

/// Exceptions live in Python, where they may have several bases.
mod python {
    use pyo3::import_exception;

    import_exception!(tetris.errors, NoStoreError);
    import_exception!(tetris.errors, NotAStoreError);
    import_exception!(tetris.errors, UntrustedStoreError);
    import_exception!(tetris.errors, StoreVersionError);
    import_exception!(tetris.errors, StoreDamagedError);
    import_exception!(tetris.errors, NotTmpfsError);
    import_exception!(tetris.errors, NotEmptyError);
    import_exception!(tetris.errors, StoreIOError);
    import_exception!(tetris.errors, StoreError);
    import_exception!(tetris.errors, ShareError);
    import_exception!(tetris.errors, StoreFullError);
    import_exception!(tetris.errors, ReadOnlyStoreError);
    import_exception!(tetris.errors, LoadError);
    import_exception!(tetris.errors, ModelIOError);
    import_exception!(tetris.errors, ModelNotFoundError);
    import_exception!(tetris.errors, NotAModelError);
    import_exception!(tetris.errors, NotAFileError);
    import_exception!(tetris.errors, HeaderError);
    import_exception!(tetris.errors, ChangedError);
    import_exception!(tetris.errors, DuplicateTensorError);
    import_exception!(tetris.errors, MissingTensorError);
    import_exception!(tetris.errors, DtypeError);
    import_exception!(tetris.errors, OutOfMemoryError);
    import_exception!(tetris.errors, GpuUnavailableError);
}

pub(crate) fn load(error: LoadError) -> PyErr {
    load_of(&error)
}

fn load_of(error: &LoadError) -> PyErr {
    let text = error.to_string();
    match error {
        LoadError::Io { source, .. } | LoadError::Hub(HubError::Io { source, .. }) => {
            match source.kind() {
                ErrorKind::NotFound => python::ModelNotFoundError::new_err(text),
                _ => python::ModelIOError::new_err(text),
            }
        }
        LoadError::NotAFile { .. } | LoadError::Hub(HubError::NotAFile { .. }) => {
            python::NotAFileError::new_err(text)
        }
        LoadError::Hub(_) => python::NotAModelError::new_err(text),
        LoadError::Header(_) => python::HeaderError::new_err(text),
        LoadError::Changed { .. } => python::ChangedError::new_err(text),
        LoadError::DuplicateTensor { .. } => python::DuplicateTensorError::new_err(text),
        LoadError::MissingTensor { .. } => python::MissingTensorError::new_err(text),
        LoadError::Dtype { .. } => python::DtypeError::new_err(text),
        LoadError::OutOfMemory { .. } => python::OutOfMemoryError::new_err(text),
        _ => python::LoadError::new_err(text),
    }
}

pub(crate) fn device(error: DeviceError) -> PyErr {
    match error {
        DeviceError::Load(error) => load(error),
        error => python::GpuUnavailableError::new_err(error.to_string()),
    }
}

/// The reason that a prefetch failed, which more than one may ask for.
pub(crate) fn prefetch(error: &DeviceError) -> PyErr {
    match error {
        DeviceError::Load(error) => load_of(error),
        error => python::GpuUnavailableError::new_err(error.to_string()),
    }
}

/// As [`device`], for an agent that has no store for a reason.
pub(crate) fn device_of(error: DeviceError, unavailable: Option<&str>) -> PyErr {
    match (error, unavailable) {
        (DeviceError::NoStore { .. }, Some(reason)) => {
            let reason = reason.to_owned();
            device(DeviceError::NoStore { reason })
        }
        (error, _) => device(error),
    }
}

pub(crate) fn location(error: StoreLocationError) -> PyErr {
    let remedy = error.remedy(Words::Python);
    let text = format!("{error}; {remedy}");
    match error {
        StoreLocationError::Missing { .. } => python::NoStoreError::new_err(text),
        StoreLocationError::Untrusted { .. } => python::UntrustedStoreError::new_err(text),
        StoreLocationError::Store { source, .. } => store_as(*source, text),
        _ => python::StoreError::new_err(text),
    }
}

pub(crate) fn store(error: StoreError) -> PyErr {
    let text = match PrivateCause::remedy_of_open(&error, Words::Python) {
        Some(remedy) => format!("{error}; {remedy}"),
        None => error.to_string(),
    };
    store_as(error, text)
}

fn store_as(error: StoreError, text: String) -> PyErr {
    match error {
        StoreError::Io(error) if error.source.kind() == ErrorKind::NotFound => {
            python::NoStoreError::new_err(text)
        }
        StoreError::Io(_) => python::StoreIOError::new_err(text),
        StoreError::NotAStore { .. } => python::NotAStoreError::new_err(text),
        StoreError::Version { .. } => python::StoreVersionError::new_err(text),
        StoreError::Header { .. } | StoreError::Record { .. } => {
            python::StoreDamagedError::new_err(text)
        }
        StoreError::NotTmpfs { .. } => python::NotTmpfsError::new_err(text),
        StoreError::NotEmpty { .. } => python::NotEmptyError::new_err(text),
        _ => python::StoreError::new_err(text),
    }
}

pub(crate) fn map(error: MapError) -> PyErr {
    let text = error.to_string();
    match error {
        MapError::Damaged { .. } => python::StoreDamagedError::new_err(text),
        _ => python::StoreIOError::new_err(text),
    }
}

pub(crate) fn share(error: ShareError) -> PyErr {
    let text = error.to_string();
    match error {
        ShareError::Publish(error) if error.is_full() => python::StoreFullError::new_err(text),
        ShareError::Private {
            cause: PrivateCause::Full { .. } | PrivateCause::OverLimit | PrivateCause::Kept { .. },
            ..
        } => python::StoreFullError::new_err(text),
        ShareError::Private { .. } | ShareError::Publish(PublishError::ReadOnly { .. }) => {
            python::ReadOnlyStoreError::new_err(text)
        }
        _ => python::ShareError::new_err(text),
    }
}
