//! Log output on standard error: text, or one JSON object per event.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use tracing::Subscriber;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Format of log events.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines of text; colored on a terminal
    #[default]
    Text,
    /// One JSON object per line: timestamp, level, target, message and the event's fields
    Json,
}

/// Arguments that all daemons have for their logs.
#[derive(Debug, Clone, Args)]
pub struct LogArgs {
    /// Format of log lines on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Log level, or a filter by target such as `info,hyper=debug`
    #[arg(
        long,
        global = true,
        value_name = "FILTER",
        env = "RUST_LOG",
        default_value = "info"
    )]
    pub log: String,
}

/// The reason logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An invalid filter.
    #[error(
        "log filter {filter:?}: {source}; expected a level or a list such as `info,hyper=debug`"
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

impl LogArgs {
    /// Writes events that pass the filter to standard error, for the whole process.
    ///
    /// # Errors
    ///
    /// Fails if the filter does not parse, or if the process has a subscriber already.
    pub fn init(&self) -> Result<(), LogError> {
        let colors = std::io::stderr().is_terminal();
        subscriber(self.log_format, &self.log, colors, std::io::stderr)?
            .try_init()
            .map_err(|_| LogError::Twice)
    }
}

/// Returns the subscriber that [`LogArgs::init`] installs, over any writer.
///
/// `filter` is a level (`info`) or a list of `target=level`, in the syntax of [`EnvFilter`].
///
/// # Errors
///
/// Fails if the filter does not parse.
pub fn subscriber<W>(
    format: LogFormat,
    filter: &str,
    colors: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let parsed = EnvFilter::builder().parse(filter).map_err(|source| {
        let filter = filter.to_owned();
        LogError::Filter { filter, source }
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
