//! Log output on standard error: text, or one JSON object per event.

use std::io::IsTerminal as _;

use clap::{Args, ValueEnum};
use tetris_conventions::log_filter::{LogFilter, LogFilterError};
use tracing::Subscriber;
use tracing_subscriber::fmt::MakeWriter;
#[cfg(feature = "traces")]
use tracing_subscriber::fmt::layer;
#[cfg(feature = "traces")]
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
#[cfg(feature = "traces")]
use tracing_subscriber::{Layer, Registry};

/// Level of a daemon's log without a filter.
const DEFAULT: &str = "info";
/// Help lists the options of every subcommand below its own.
const GLOBAL: &str = "Global options";

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
    #[arg(long, global = true, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text, help_heading = GLOBAL)]
    pub log_format: LogFormat,
    /// Log level, or levels of targets such as `info,hyper=debug` [default: TETRIS_LOG, else
    /// RUST_LOG, else info]
    #[arg(long, global = true, value_name = "FILTER", help_heading = GLOBAL)]
    pub log: Option<String>,
}

/// The reason logging could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An invalid filter.
    #[error(transparent)]
    Filter(#[from] LogFilterError),
    /// A second subscriber in the process.
    #[error("logging is already set up; set it up once per process")]
    Twice,
}

impl LogArgs {
    /// The filter of the log: the option's, a variable's, or the default.
    ///
    /// # Errors
    ///
    /// Fails if it cannot be read.
    pub fn filter(&self) -> Result<LogFilter, LogFilterError> {
        LogFilter::of_process(self.log.as_deref(), DEFAULT)
    }

    /// Writes events that pass the filter to standard error, for the whole process.
    ///
    /// # Errors
    ///
    /// Fails if the filter does not parse, or if the process has a subscriber already.
    pub fn init(&self) -> Result<(), LogError> {
        let filter = self.filter()?;
        let colors = std::io::stderr().is_terminal();
        subscriber(self.log_format, &filter, colors, std::io::stderr)?
            .try_init()
            .map_err(|_| LogError::Twice)
    }

    /// Like [`Self::init`], and gives spans and events to `other` as well, by its own filter.
    ///
    /// # Errors
    ///
    /// Fails if the filter does not parse, or if the process has a subscriber already.
    #[cfg(feature = "traces")]
    pub(crate) fn init_beside(&self, other: BoxedLayer) -> Result<(), LogError> {
        let colors = std::io::stderr().is_terminal() && self.log_format == LogFormat::Text;
        let text = layer().with_ansi(colors).with_writer(std::io::stderr);
        let written = match self.log_format {
            LogFormat::Text => text.boxed(),
            LogFormat::Json => text.json().flatten_event(true).boxed(),
        };
        tracing_subscriber::registry()
            .with(other)
            .with(written.with_filter(self.filter()?.env_filter()?))
            .try_init()
            .map_err(|_| LogError::Twice)
    }
}

/// A layer of a subscriber, which filters by itself.
#[cfg(feature = "traces")]
pub(crate) type BoxedLayer = Box<dyn Layer<Registry> + Send + Sync>;

/// Returns the subscriber that [`LogArgs::init`] installs, over any writer.
///
/// # Errors
///
/// Fails if the filter does not parse.
pub fn subscriber<W>(
    format: LogFormat,
    filter: &LogFilter,
    colors: bool,
    writer: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, LogError>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter.env_filter()?)
        .with_ansi(colors && format == LogFormat::Text)
        .with_writer(writer);
    Ok(match format {
        LogFormat::Text => Box::new(builder.finish()),
        LogFormat::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}
