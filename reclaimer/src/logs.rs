//! Logs on stderr: lines for people, or one JSON object per event for a collector.

use std::io::IsTerminal as _;

use serde::Deserialize;
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// How events are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
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
        "log filter {filter:?}: {source}; expected a level or a list such as `info,tetris_node=debug`"
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
///
/// `filter` is a level (`info`) or a list of `target=level`, as `tracing_subscriber::EnvFilter` has it.
pub fn init_logs(format: LogFormat, filter: &str) -> Result<(), LogError> {
    let colors = std::io::stderr().is_terminal();
    subscriber(format, filter, colors, std::io::stderr)?
        .try_init()
        .map_err(|_| LogError::Twice)
}

/// What [`init_logs`] installs, over any writer.
pub fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    colors: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let parsed = EnvFilter::builder()
        .parse(filter)
        .map_err(|source| LogError::Filter {
            filter: filter.to_owned(),
            source,
        })?;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        .with_ansi(colors && format == LogFormat::Text)
        .with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}
