//! End of an instance's output, for error messages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncRead, AsyncReadExt};

/// Maximum size of the kept output, in bytes.
const KEPT: usize = 4_096;

/// Last bytes of standard output and error.
#[derive(Clone, Debug, Default)]
pub(super) struct LogTail(Arc<Mutex<VecDeque<u8>>>);

impl LogTail {
    /// Reads `stream` to its end. Without a reader the instance would stop when the pipe is full.
    pub(super) fn follow(&self, stream: Option<impl AsyncRead + Send + Unpin + 'static>) {
        let (Some(mut stream), log) = (stream, self.clone()) else {
            return;
        };
        // The task ends with the last process that has the pipe, or with the runtime.
        let _detached = tokio::spawn(async move {
            let mut buffer = [0; 4_096];
            while let Ok(count @ 1..) = stream.read(&mut buffer).await {
                log.push(buffer.get(..count).unwrap_or_default());
            }
        });
    }

    fn push(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(bytes);
        let excess = kept.len().saturating_sub(KEPT);
        kept.drain(..excess);
    }

    /// Returns the kept output, without control characters that could affect a terminal.
    pub(super) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes: Vec<u8> = kept.iter().copied().collect();
        let text = String::from_utf8_lossy(&bytes);
        text.chars()
            .filter(|&c| c == '\n' || !c.is_control())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_without_what_controls_terminals() {
        let log = LogTail::default();
        log.push(&[b'a'; 5_000]);
        log.push(b"\x1b[31mlast\r\nline");
        let text = log.text();
        assert!(
            text.len() < 4_100 && text.ends_with("[31mlast\nline"),
            "{text}"
        );
    }
}
