//! Rows of a file, one at a time.

use std::io::Read;
use std::path::{Path, PathBuf};

use csv::{ByteRecord, ReaderBuilder, Trim};

use super::Limits;
use super::bounded::Bounded;
use super::error::TraceError;
use super::fields::shown;

/// Size of the parser's buffer, in bytes.
const BUFFER_BYTES: usize = 1 << 16;

/// Reader of rows; it keeps one in memory.
pub(super) struct Rows<R> {
    csv: csv::Reader<Bounded<R>>,
    record: ByteRecord,
    path: PathBuf,
    row_bytes: usize,
}

impl<R: Read> Rows<R> {
    pub(super) fn new(path: &Path, file: R, limits: &Limits) -> Self {
        let csv = ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .trim(Trim::All)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(Bounded::new(file));
        Self {
            csv,
            record: ByteRecord::new(),
            path: path.to_owned(),
            row_bytes: limits.row_bytes,
        }
    }

    /// Reads the next row; returns false after the last.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read or the row is too long.
    pub(super) fn next(&mut self) -> Result<bool, TraceError> {
        let start = self.csv.position().byte();
        // The parser reads ahead by a buffer at most.
        let budget = self.row_bytes.saturating_add(BUFFER_BYTES);
        self.csv.get_mut().renew(budget);
        let read = self.csv.read_byte_record(&mut self.record);
        if self.csv.get_ref().exhausted() {
            return Err(self.too_long());
        }
        let more = read.map_err(|error| TraceError::Read {
            path: self.path.clone(),
            source: error.into(),
        })?;
        let length = self.csv.position().byte().saturating_sub(start);
        if length > self.row_bytes as u64 {
            return Err(self.too_long());
        }
        Ok(more)
    }

    fn too_long(&self) -> TraceError {
        let expected = format!("a row of at most {} bytes", self.row_bytes);
        self.wrong(expected, "a longer one".to_owned())
    }

    pub(super) const fn row(&self) -> &ByteRecord {
        &self.record
    }

    /// Returns the bytes of a column; those of a missing one are empty.
    pub(super) fn field(&self, column: usize) -> &[u8] {
        self.record.get(column).unwrap_or_default()
    }

    /// Number of the current row's line, from 1.
    ///
    /// The parser has passed its end. The row's own position would be that of blank lines before it.
    fn line(&self) -> u64 {
        let passed = u64::from(!self.csv.get_ref().exhausted());
        self.csv.position().line().saturating_sub(passed)
    }

    /// Returns an error about the current row.
    pub(super) fn wrong(&self, expected: impl Into<String>, found: String) -> TraceError {
        TraceError::Row {
            path: self.path.clone(),
            line: self.line(),
            expected: expected.into(),
            found,
        }
    }

    /// Returns an error about a field of the current row.
    pub(super) fn wrong_field(&self, column: usize, expected: impl Into<String>) -> TraceError {
        let field = shown(self.field(column));
        self.wrong(expected, format!("`{field}` in column {}", column + 1))
    }

    /// Returns the error of a limit that the current row exceeds.
    pub(super) fn limit(&self, of: &'static str, most: u64) -> TraceError {
        TraceError::Limit {
            path: self.path.clone(),
            line: self.line(),
            of,
            most,
        }
    }

    /// Returns the error of a first line without a supported header.
    pub(super) fn no_header(&self) -> TraceError {
        let fields: Vec<&[u8]> = self.record.iter().take(16).collect();
        TraceError::Header {
            path: self.path.clone(),
            found: shown(&fields.join(&b',')),
        }
    }
}
