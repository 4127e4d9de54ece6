//! Logs on stderr: lines for people, or one JSON object per event for a collector.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How events are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people; colored on a terminal
    #[default]
    Text,
    /// One JSON object per line: timestamp, level, target, message and the event's fields
    Json,
}

/// Why logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// The filter is not one.
    #[error(
        "log filter {filter:?}: {source}; expected a level or a list such as `info,tetris_webhook=debug`"
    )]
    Filter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        source: tracing_subscriber::filter::ParseError,
    },
    /// The process has a subscriber already.
    #[error("logging is already set up; set it up once per process")]
    Twice,
}

/// Writes events that pass `filter` to stderr, from now on and for the whole process.
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
