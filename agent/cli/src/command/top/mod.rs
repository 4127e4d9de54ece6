//! `tetris top`: stores, models, holders and loads, again and again.

mod frame;
mod screen;
mod snapshot;
mod wait;

use std::io::IsTerminal;
use std::time::Duration;

use clap::Args;
use serde_json::Value;
use tetris_agent::Store;
use tetris_agent::store_location::{MOUNT_POINT, SHM_DIR, StoreLocation};
use tetris_units::duration::{self, DurationError};

use self::frame::Frame;
use self::screen::Screen;
use self::snapshot::{Memory, Snapshot};
use self::wait::{Pause, Woken};
use super::error::Result;
use super::output::Output;

/// Shortest time between two looks: each reads the locks and the mappings of all processes.
const SHORTEST: Duration = Duration::from_millis(100);

/// Arguments of `top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Time between two looks: 500ms, 1m, or seconds as 2
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_interval)]
    interval: Duration,
    /// Look once and end
    #[arg(long)]
    once: bool,
}

/// The reason that a text is no interval.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum IntervalError {
    #[error(transparent)]
    Duration(#[from] DurationError),
    #[error("expected at least 100ms, found `{0}`")]
    TooShort(String),
}

/// A time that is long enough to look again.
fn parse_interval(text: &str) -> Result<Duration, IntervalError> {
    let interval = duration::parse(text)?;
    if interval < SHORTEST {
        return Err(IntervalError::TooShort(text.to_owned()));
    }
    Ok(interval)
}

/// Runs `top` until SIGINT or SIGTERM, which end it with code 0.
pub(crate) fn run(args: &TopArgs, location: &StoreLocation, out: &mut Output) -> Result {
    let stores = stores(location)?;
    let mut memory = Memory::default();
    if args.once {
        return print(&look(&stores, &mut memory)?, out);
    }
    let pause = Pause::new()?;
    let on_terminal = !out.is_json() && std::io::stdout().is_terminal();
    let mut screen = on_terminal.then(Screen::enter).transpose()?;
    loop {
        let snapshots = look(&stores, &mut memory)?;
        match &mut screen {
            Some(screen) => screen.show(&Frame::of(&snapshots))?,
            None => print(&snapshots, out)?,
        }
        if out.is_closed() {
            return Ok(());
        }
        match pause.wait(args.interval)? {
            Woken::Stop => return Ok(()),
            Woken::Suspend => {
                // Dropped, so that the shell has its screen.
                let was_shown = screen.take().is_some();
                wait::suspend()?;
                screen = was_shown.then(Screen::enter).transpose()?;
            }
            Woken::Redraw | Woken::Time => {}
        }
    }
}

/// The named store; else both default ones, as far as they can be used.
fn stores(location: &StoreLocation) -> Result<Vec<Store>> {
    let first = location.open();
    if location.named {
        return Ok(vec![first?]);
    }
    let others = [MOUNT_POINT, SHM_DIR].into_iter();
    let others = others.filter(|dir| location.dir != std::path::Path::new(dir));
    let trusted = others.filter_map(|dir| {
        let mut other = StoreLocation::new(None);
        other.dir = dir.into();
        other.open().ok()
    });
    let mut stores: Vec<Store> = trusted.collect();
    match first {
        Ok(first) => stores.insert(0, first),
        Err(error) if stores.is_empty() => return Err(error.into()),
        Err(_) => {}
    }
    Ok(stores)
}

fn look(stores: &[Store], memory: &mut Memory) -> Result<Vec<Snapshot>> {
    let snapshots = stores.iter().map(|store| Snapshot::of(store, memory));
    snapshots.collect()
}

fn print(snapshots: &[Snapshot], out: &mut Output) -> Result {
    if out.is_json() {
        let stores: Vec<Value> = snapshots.iter().map(Snapshot::document).collect();
        let at = super::time::unix_s(std::time::SystemTime::now());
        out.json(&serde_json::json!({ "time_s": at, "stores": stores }))?;
    } else {
        for line in Frame::of(snapshots).lines(usize::MAX, frame::WIDTH) {
            out.line(line)?;
        }
        out.line("")?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_seconds_or_durations() {
        assert_eq!(parse_interval("2"), Ok(Duration::from_secs(2)));
        assert_eq!(parse_interval("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_interval("1m"), Ok(Duration::from_mins(1)));
        for text in ["0", "-1", "1ms", "x", "", "inf", "nan"] {
            assert!(parse_interval(text).is_err(), "{text}");
        }
    }
}
