//! Reading of a file in one pass.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::error::TraceError;
use super::fields::{MAX_DURATION_S, MAX_TIME_S, count, seconds_us};
use super::format::{Columns, IDS_2019};
use super::function::{MinuteCount, RecordedFunction, Requests, TimedRequest};
use super::rows::Rows;
use super::window::{MINUTE_S, SECOND_US, Window};
use super::{Limits, RecordedTrace};

/// Reads `file`, whose messages name `path`.
pub(super) fn read(
    path: &Path,
    file: impl Read,
    window: Window,
    limits: &Limits,
) -> Result<RecordedTrace, TraceError> {
    let mut rows = Rows::new(path, file, limits);
    let has_header = rows.next()?;
    let columns = Columns::of(rows.row())
        .filter(|_| has_header)
        .ok_or_else(|| rows.no_header())?;
    let width = rows.row().len();
    let mut collected = Collected::new(window, *limits);
    while rows.next()? {
        let number = rows.row().len();
        if number != width {
            let expected = format!("{width} columns, as in the header");
            return Err(rows.wrong(expected, format!("{number} columns")));
        }
        match columns {
            Columns::PerMinute { minutes } => collected.add_minutes(&rows, minutes)?,
            Columns::Invocations => collected.add_invocation(&rows)?,
            Columns::Prompts {
                timestamp,
                model,
                elapsed,
            } => collected.add_prompt(&rows, timestamp, model, elapsed)?,
        }
    }
    collected.finish(path, columns)
}

/// Requests of the window, by function.
struct Collected {
    window: Window,
    limits: Limits,
    places: HashMap<String, usize>,
    functions: Vec<RecordedFunction>,
    /// Number of elements of all functions.
    entries: usize,
    /// Number of requests of all functions.
    requests: u64,
    /// First minute of the file with requests, and the minute after the last.
    minutes: Option<(u64, u64)>,
}

impl Collected {
    fn new(window: Window, limits: Limits) -> Self {
        Self {
            window,
            limits,
            places: HashMap::new(),
            functions: Vec::new(),
            entries: 0,
            requests: 0,
            minutes: None,
        }
    }

    /// Adds a row of Azure Functions 2019.
    fn add_minutes<R: Read>(&mut self, rows: &Rows<R>, minutes: usize) -> Result<(), TraceError> {
        let first_column = IDS_2019.len();
        let mut counts = Vec::new();
        for minute in 0..minutes {
            let column = first_column + minute;
            let number = count(rows.field(column)).ok_or_else(|| {
                rows.wrong_field(column, "a number of requests below 4,294,967,296")
            })?;
            let from_start = (minute as u64).checked_sub(self.window.start_minutes());
            if let Some(from_start) = from_start.filter(|_| number > 0) {
                let span_s = self.window.seconds_of(from_start);
                // Of a minute that the window cuts, the window has a part of the requests.
                let part = (u64::from(number) * span_s + MINUTE_S / 2) / MINUTE_S;
                if part > 0 {
                    counts.push(MinuteCount {
                        minute: from_start as u32,
                        count: part as u32,
                    });
                }
            }
        }
        // The file covers all of its minutes, with requests or without.
        self.minutes = Some((0, minutes as u64));
        let requests = counts.iter().map(|minute| u64::from(minute.count)).sum();
        self.count(rows, counts.len(), requests)?;
        if counts.is_empty() {
            return Ok(());
        }
        let empty = Requests::PerMinute(Vec::new());
        if let Requests::PerMinute(all) = self.function(rows, &[0, 1, 2], empty)? {
            all.append(&mut counts);
        }
        Ok(())
    }

    /// Adds a row of Azure Functions 2021.
    fn add_invocation<R: Read>(&mut self, rows: &Rows<R>) -> Result<(), TraceError> {
        let [app, func, end, duration] = [0, 1, 2, 3];
        let end_us = time_us(rows, end, "end_timestamp")?;
        let took_us = duration_us(rows, duration)?;
        match end_us.checked_sub(took_us) {
            Some(start_us) => self.add_timed(rows, &[app, func], start_us, Some(took_us)),
            // It began before the file's zero, so it is in no window.
            None => Ok(()),
        }
    }

    /// Adds a row of BurstGPT.
    fn add_prompt<R: Read>(
        &mut self,
        rows: &Rows<R>,
        timestamp: usize,
        model: usize,
        elapsed: Option<usize>,
    ) -> Result<(), TraceError> {
        let at_us = time_us(rows, timestamp, "timestamp")?;
        // Older files have no such column, and rows of newer ones may have no value.
        let took_us = elapsed
            .filter(|&column| !rows.field(column).is_empty())
            .map(|column| duration_us(rows, column))
            .transpose()?;
        self.add_timed(rows, &[model], at_us, took_us)
    }

    fn add_timed<R: Read>(
        &mut self,
        rows: &Rows<R>,
        ids: &[usize],
        at_us: u64,
        took_us: Option<u64>,
    ) -> Result<(), TraceError> {
        let minute = at_us / (MINUTE_S * SECOND_US);
        let (first, end) = self.minutes.unwrap_or((minute, minute + 1));
        self.minutes = Some((first.min(minute), end.max(minute + 1)));
        let Some(at_us) = self.window.since_start_us(at_us) else {
            return Ok(());
        };
        self.count(rows, 1, 1)?;
        let empty = Requests::Timed(Vec::new());
        if let Requests::Timed(all) = self.function(rows, ids, empty)? {
            all.push(TimedRequest {
                at_us,
                duration_ms: took_us.map(|took_us| (took_us / 1_000) as u32),
            });
        }
        Ok(())
    }

    /// Counts a row's elements and requests against the limits.
    fn count<R: Read>(
        &mut self,
        rows: &Rows<R>,
        entries: usize,
        requests: u64,
    ) -> Result<(), TraceError> {
        self.entries += entries;
        self.requests = self.requests.saturating_add(requests);
        if self.entries > self.limits.entries {
            return Err(rows.limit(
                "requests, or minutes with requests,",
                self.limits.entries as u64,
            ));
        }
        if self.requests > self.limits.requests {
            return Err(rows.limit("requests", self.limits.requests));
        }
        Ok(())
    }

    /// Returns the requests of the row's function, which has these `empty` ones if it is new.
    fn function<R: Read>(
        &mut self,
        rows: &Rows<R>,
        ids: &[usize],
        empty: Requests,
    ) -> Result<&mut Requests, TraceError> {
        let mut name = String::new();
        for &column in ids {
            let most = self.limits.id_bytes;
            let id = str::from_utf8(rows.field(column))
                .ok()
                .filter(|id| (1..=most).contains(&id.len()))
                .ok_or_else(|| {
                    let expected = format!("an identifier in UTF-8 of 1 to {most} bytes");
                    rows.wrong_field(column, expected)
                })?;
            if !name.is_empty() {
                name.push('/');
            }
            name.push_str(id);
        }
        let place = match self.places.get(&name) {
            Some(&place) => place,
            None if self.functions.len() >= self.limits.functions => {
                return Err(rows.limit("functions", self.limits.functions as u64));
            }
            None => {
                let place = self.functions.len();
                self.places.insert(name.clone(), place);
                self.functions.push(RecordedFunction {
                    name,
                    requests: empty,
                });
                place
            }
        };
        let function = self.functions.get_mut(place);
        let requests = function.map(|function| &mut function.requests);
        requests.ok_or_else(|| rows.limit("functions", self.limits.functions as u64))
    }

    fn finish(mut self, path: &Path, columns: Columns) -> Result<RecordedTrace, TraceError> {
        let (first, end) = self.minutes.unwrap_or_default();
        if self.window.end_minutes() > end {
            return Err(TraceError::Window {
                path: path.to_owned(),
                window: self.window,
                first,
                end,
            });
        }
        for function in &mut self.functions {
            match &mut function.requests {
                Requests::PerMinute(counts) => counts.sort_unstable(),
                Requests::Timed(requests) => requests.sort_unstable(),
            }
        }
        Ok(RecordedTrace {
            path: path.to_owned(),
            format: columns.format(),
            window: self.window,
            functions: self.functions.into_iter().map(Arc::new).collect(),
        })
    }
}

/// Parses a time of the file, in microseconds.
fn time_us<R: Read>(rows: &Rows<R>, column: usize, name: &str) -> Result<u64, TraceError> {
    seconds_us(rows.field(column), MAX_TIME_S).ok_or_else(|| {
        rows.wrong_field(
            column,
            format!("a {name} in seconds from 0 to {MAX_TIME_S}"),
        )
    })
}

fn duration_us<R: Read>(rows: &Rows<R>, column: usize) -> Result<u64, TraceError> {
    seconds_us(rows.field(column), MAX_DURATION_S).ok_or_else(|| {
        rows.wrong_field(
            column,
            format!("a duration in seconds from 0 to {MAX_DURATION_S}"),
        )
    })
}
