//! The bytes of an archive: fetched by ranges ahead of the reader, proved, and decompressed.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, SyncSender};

use flate2::read::MultiGzDecoder;
use futures::{StreamExt, stream};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use sha2::{Digest as _, Sha256};

use crate::error::PullError;
use crate::fetch::Fetcher;
use crate::listing::{Compression, RemoteFile};

/// Length of the ranges in bytes.
const RANGE: u64 = 8 << 20;
/// Ranges fetched at once, whose bytes are all in memory.
const AHEAD: usize = 4;
/// Most decompressed bytes that nothing is made of.
const MAX_UNUSED: u64 = 64 << 30;

/// Fetches a file, sends its bytes in order, and returns their SHA-256. Ends early when the receiver is gone.
pub(super) async fn send(
    fetcher: &Fetcher<'_>,
    file: &RemoteFile,
    connections: usize,
    pieces: &SyncSender<Vec<u8>>,
) -> Result<[u8; 32], PullError> {
    let ranges = (0..file.size).step_by(RANGE as usize);
    let fetch = |begin: u64| fetcher.bytes(file, begin..file.size.min(begin + RANGE));
    let mut fetched = stream::iter(ranges.map(fetch)).buffered(connections.clamp(1, AHEAD));
    let mut hasher = Sha256::new();
    while let Some(piece) = fetched.next().await {
        let piece = piece?;
        hasher.update(&piece);
        fetcher.count_done(piece.len() as u64);
        if pieces.send(piece).is_err() {
            break;
        }
    }
    Ok(hasher.finalize().into())
}

/// The sent bytes, as a reader.
pub(super) struct SentBytes {
    pieces: Receiver<Vec<u8>>,
    piece: io::Cursor<Vec<u8>>,
}

impl SentBytes {
    pub(super) fn new(pieces: Receiver<Vec<u8>>) -> Self {
        Self {
            pieces,
            piece: io::Cursor::default(),
        }
    }
}

impl Read for SentBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let len = self.piece.read(buffer)?;
            if len > 0 || buffer.is_empty() {
                return Ok(len);
            }
            match self.pieces.recv() {
                Ok(piece) => self.piece = io::Cursor::new(piece),
                Err(_) => return Ok(0),
            }
        }
    }
}

/// Decompressed bytes, with a limit of unused ones.
pub(super) struct Inflated<'r> {
    reader: Box<dyn Read + 'r>,
    unused: u64,
}

impl<'r> Inflated<'r> {
    pub(super) fn new(compression: Compression, reader: impl Read + 'r) -> Self {
        let reader: Box<dyn Read + 'r> = match compression {
            Compression::None => Box::new(reader),
            Compression::Gzip => Box::new(MultiGzDecoder::new(reader)),
            Compression::Zstd => Box::new(Frames::new(reader)),
        };
        Self {
            reader,
            unused: MAX_UNUSED,
        }
    }

    /// Uses the next `bytes`.
    pub(super) fn use_next(&mut self, bytes: u64) {
        self.unused = self.unused.saturating_add(bytes);
    }

    /// Reads to the end.
    pub(super) fn drain(mut self) -> io::Result<()> {
        io::copy(&mut self, &mut io::sink()).map(drop)
    }
}

impl Read for Inflated<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.reader.read(buffer)?;
        self.unused = self.unused.checked_sub(len as u64).ok_or_else(|| {
            let problem = format!("it has more than {MAX_UNUSED} bytes beside the model");
            io::Error::new(io::ErrorKind::InvalidData, problem)
        })?;
        Ok(len)
    }
}

/// All frames of a file of Zstandard; the decoder reads one at a time.
struct Frames<R: Read> {
    source: BufReader<R>,
    decoder: FrameDecoder,
}

impl<R: Read> Frames<R> {
    fn new(source: R) -> Self {
        Self {
            source: BufReader::new(source),
            decoder: FrameDecoder::new(),
        }
    }

    /// Begins the next frame, or skips one without content.
    fn begin(&mut self) -> io::Result<()> {
        match self.decoder.init(&mut self.source) {
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let mut frame = (&mut self.source).take(length.into());
                io::copy(&mut frame, &mut io::sink()).map(drop)
            }
            begun => begun.map_err(io::Error::other),
        }
    }
}

impl<R: Read> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.decoder.can_collect() > 0 || buffer.is_empty() {
                return self.decoder.read(buffer);
            }
            if !self.decoder.is_finished() {
                let block = BlockDecodingStrategy::UptoBlocks(1);
                let decoded = self.decoder.decode_blocks(&mut self.source, block);
                decoded.map_err(io::Error::other)?;
            } else if self.source.fill_buf()?.is_empty() {
                return Ok(0);
            } else {
                self.begin()?;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::mpsc::sync_channel;

    use flate2::write::GzEncoder;

    use super::*;

    fn inflated(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        Inflated::new(compression, bytes).read_to_end(&mut content)?;
        Ok(content)
    }

    fn zstd(content: &[u8]) -> Vec<u8> {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(content, level)
    }

    #[test]
    fn all_parts_of_a_compressed_file_are_read() {
        let mut gzip = Vec::new();
        for part in [b"ab", b"cd"] {
            let mut encoder = GzEncoder::new(&mut gzip, flate2::Compression::default());
            encoder.write_all(part).unwrap();
        }
        assert_eq!(inflated(Compression::Gzip, &gzip).unwrap(), b"abcd");
        // A frame that has no content stands between two others.
        let skipped = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let long = vec![7; 300_000];
        let frames = [&zstd(b"ab")[..], &skipped, &zstd(&long)].concat();
        let content = inflated(Compression::Zstd, &frames).unwrap();
        assert_eq!(content, [&b"ab"[..], &long].concat());
        assert_eq!(inflated(Compression::None, b"ab").unwrap(), b"ab");
    }

    #[test]
    fn bytes_that_are_cut_short_or_not_compressed_are_an_error() {
        for (compression, whole) in [
            (Compression::Zstd, zstd(&vec![7; 300_000])),
            (Compression::Gzip, b"\x1f\x8b\x08".to_vec()),
        ] {
            let part = &whole[..whole.len() - 1];
            assert!(inflated(compression, part).is_err(), "{compression:?}");
            assert!(inflated(compression, b"plain text").is_err());
        }
    }

    #[test]
    fn unused_bytes_have_a_limit() {
        let mut inflated = Inflated::new(Compression::None, io::repeat(0).take(20));
        inflated.unused = 5;
        inflated.use_next(10);
        let mut buffer = [0; 15];
        inflated.read_exact(&mut buffer).unwrap();
        let error = inflated.drain().unwrap_err();
        assert!(error.to_string().contains("beside the model"), "{error}");
    }

    #[test]
    fn sent_bytes_come_in_order() {
        let (sender, pieces) = sync_channel(3);
        for piece in [&b"ab"[..], b"", b"c"] {
            sender.send(piece.to_vec()).unwrap();
        }
        drop(sender);
        let mut text = String::new();
        SentBytes::new(pieces).read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
    }
}
