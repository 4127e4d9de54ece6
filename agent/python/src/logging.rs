//! Events of the Rust crates in Python's logging: `tetris_agent::load` goes to the logger
//! `tetris.agent.load`, so that one logger, `tetris`, governs them all. Messages begin with the
//! project's name, since many programs print them without the logger's.

use std::borrow::Cow;

use log::{LevelFilter, Log, Metadata, Record};
use pyo3::prelude::*;
use pyo3_log::{Caching, Logger};

/// The module path of this crate begins with it.
const NATIVE: &str = "_native";
/// Paths of the other crates of this project begin with it.
const CRATES: &str = "tetris_";
/// The logger of this package.
pub(crate) const LOGGER: &str = "tetris";

/// Python's loggers, under names of this package.
struct PackageLogger(Logger);

/// Gives events of Rust to Python from now on. A program that has set up its own logger for Rust
/// keeps it.
pub(crate) fn install(py: Python<'_>) {
    // Without a cache of levels: a notebook raises them at any time, and loads log next to nothing.
    let Ok(logger) = Logger::new(py, Caching::Loggers) else {
        return;
    };
    if log::set_boxed_logger(Box::new(PackageLogger(logger))).is_ok() {
        log::set_max_level(LevelFilter::Debug);
    }
}

impl Log for PackageLogger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = python_name(metadata.target());
        let named = Metadata::builder()
            .level(metadata.level())
            .target(&target)
            .build();
        self.0.enabled(&named)
    }

    fn log(&self, record: &Record<'_>) {
        let target = python_name(record.target());
        self.0.log(
            &Record::builder()
                .level(record.level())
                .target(&target)
                .args(format_args!("Tetris: {}", record.args()))
                .module_path(record.module_path())
                .file(record.file())
                .line(record.line())
                .build(),
        );
    }

    fn flush(&self) {
        self.0.flush();
    }
}

/// The name of a logger for a module of Rust, with `::` for `.`.
fn python_name(target: &str) -> Cow<'_, str> {
    if let Some(module) = target.strip_prefix(NATIVE) {
        Cow::Owned(format!("{LOGGER}{module}"))
    } else if let Some(module) = target.strip_prefix(CRATES) {
        Cow::Owned(format!("{LOGGER}::{module}"))
    } else {
        Cow::Borrowed(target)
    }
}
