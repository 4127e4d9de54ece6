//! Log output on standard error: text, or one JSON object per event.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of log events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines of text; colored on a terminal
    #[default]
    Text,
    /// One JSON object per line: timestamp, level, target, message and the event's fields
    Json,
}

/// The reason logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An invalid filter.
    #[error(
        "log filter {filter:?}: {source}; expected a level or a list such as `info,tetris_scaler=debug`"
    )]
    Filter {
        /// The filter as given.
        filter: String,
        /// Cause.
        source: tracing_subscriber::filter::ParseError,
    },
    /// A second subscriber in the process.
    #[error("logging is already set up; set it up once per process")]
    Twice,
}

/// Writes events that pass `filter` to standard error, for the whole process.
///
/// # Errors
///
/// Fails if the filter does not parse, or if the process has a subscriber already.
pub fn init_logs(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let parsed = EnvFilter::builder().parse(filter).map_err(|source| {
        let filter = filter.to_owned();
        LogError::Filter { filter, source }
    })?;
    let colors = format == LogFormat::Text && std::io::stderr().is_terminal();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_ansi(colors)
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.finish().try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().try_init(),
    }
    .map_err(|_| LogError::Twice)
}
