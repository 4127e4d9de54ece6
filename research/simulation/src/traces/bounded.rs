//! Reader that bounds the length of a row, and makes all ends of lines alike.

use std::io::{self, Read};

/// Reader of at most a budget of bytes, which the caller renews after each row.
///
/// A parser of CSV keeps a row in memory until it ends, and a file without ends of lines would take all of it. Lines end
/// with a line feed only, the last one as well: otherwise the parser's count of lines depends on the file's style.
#[derive(Debug)]
pub(super) struct Bounded<R> {
    inner: R,
    budget: usize,
    exhausted: bool,
    ended: bool,
}

impl<R> Bounded<R> {
    pub(super) const fn new(inner: R) -> Self {
        Self {
            inner,
            budget: 0,
            exhausted: false,
            ended: false,
        }
    }

    /// Permits `bytes` more bytes from now on.
    pub(super) const fn renew(&mut self, bytes: usize) {
        self.budget = bytes;
    }

    /// Returns true if a read has failed for want of a budget.
    pub(super) const fn exhausted(&self) -> bool {
        self.exhausted
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            if self.budget == 0 {
                self.exhausted = true;
                return Err(io::ErrorKind::InvalidData.into());
            }
            let most = buffer.len().min(self.budget);
            let length = self
                .inner
                .read(buffer.get_mut(..most).unwrap_or_default())?;
            self.budget = self.budget.saturating_sub(length);
            if length == 0 {
                self.ended = true;
                if let Some(last) = buffer.first_mut() {
                    *last = b'\n';
                }
                return Ok(1);
            }
            let kept = without_returns(buffer.get_mut(..length).unwrap_or_default());
            if kept > 0 {
                return Ok(kept);
            }
        }
        Ok(0)
    }
}

/// Removes carriage returns, and returns the number of bytes that remain at the front.
fn without_returns(bytes: &mut [u8]) -> usize {
    if !bytes.contains(&b'\r') {
        return bytes.len();
    }
    let mut kept = 0;
    for at in 0..bytes.len() {
        let byte = bytes.get(at).copied().unwrap_or(b'\r');
        if byte != b'\r' {
            if let Some(place) = bytes.get_mut(kept) {
                *place = byte;
            }
            kept += 1;
        }
    }
    kept
}
