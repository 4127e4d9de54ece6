//! Objects of the store from a file that comes as a stream.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::Path;

use tetris_loader::header::{Header, LENGTH_FIELD_LEN, MAX_HEADER_LEN, TensorInfo};
use tetris_loader::{LoadFailure, ModelBytes, PlannedFile};
use tetris_store_layout::{ManifestKind, Published, segment_count};

use super::unreadable;
use crate::destination::Destination;
use crate::error::PullError;
use crate::file::parse_header;
use crate::listing::RemoteFile;
use crate::objects::{Writing, changed};
use crate::pulled_file::PulledFile;

/// Bytes read at a time.
const PIECE: u64 = 256 << 10;

/// A file whose bytes come in order.
pub(super) struct StreamedFile<'a> {
    pub(super) file: &'a RemoteFile,
    pub(super) destination: Destination<'a>,
    pub(super) threads: usize,
}

/// The parts of a file read so far.
struct Parts<'a> {
    path: &'a Path,
    /// Small tensors by their offsets: they decide the packs, and are read for them.
    small: BTreeMap<u64, Vec<u8>>,
    /// Objects by the offsets of their bytes.
    objects: BTreeMap<u64, Published>,
}

impl Parts<'_> {
    /// The bytes from `offset` on, up to the end of the part that has them.
    fn at(&self, offset: u64) -> Option<&[u8]> {
        let small = self.small.range(..=offset).next_back();
        let small = small.map(|(begin, bytes)| (*begin, bytes.as_slice()));
        let object = self.objects.range(..=offset).next_back();
        let object = object.map(|(begin, object)| (*begin, &object.mapping[..]));
        let (begin, bytes) = small
            .into_iter()
            .chain(object)
            .max_by_key(|(begin, _)| *begin)?;
        bytes.get(usize::try_from(offset - begin).ok()?..)
    }
}

impl ModelBytes for Parts<'_> {
    fn path(&self) -> &Path {
        self.path
    }

    fn read_at(&self, mut buffer: &mut [u8], mut offset: u64) -> Result<(), LoadFailure> {
        while !buffer.is_empty() {
            let bytes = self.at(offset).filter(|bytes| !bytes.is_empty());
            let bytes = bytes.ok_or(LoadFailure::Changed)?;
            let len = bytes.len().min(buffer.len());
            let (now, later) = buffer.split_at_mut_checked(len).unwrap_or_default();
            now.copy_from_slice(bytes.get(..len).unwrap_or_default());
            (buffer, offset) = (later, offset + len as u64);
        }
        Ok(())
    }
}

impl StreamedFile<'_> {
    /// Makes the objects of the file, whose bytes `body` has.
    pub(super) fn read(&self, body: &mut dyn Read) -> Result<PulledFile, PullError> {
        match self.file.kind() {
            _ if self.file.size == 0 => Ok(PulledFile::empty(self.file)),
            ManifestKind::File => {
                let object = self.object(body, self.file.size)?;
                let planned = PlannedFile::whole(self.file.size);
                Ok(PulledFile::read(self.file, planned, vec![object]))
            }
            ManifestKind::Safetensors => self.safetensors(body),
        }
    }

    fn safetensors(&self, body: &mut dyn Read) -> Result<PulledFile, PullError> {
        let (header, raw) = self.header(body)?;
        let small = PlannedFile::small_tensors(&header);
        let mut small = small.iter().map(|range| range.start).peekable();
        let mut parts = Parts {
            path: Path::new(&self.file.address),
            small: BTreeMap::new(),
            objects: BTreeMap::new(),
        };
        // The parser has checked that they have neither gaps nor overlaps.
        let tensors = header
            .tensors
            .iter()
            .filter(|tensor| tensor.end > tensor.begin);
        for TensorInfo { begin, end, .. } in tensors {
            let (begin, len) = (header.data_start + begin, end - begin);
            if small.next_if_eq(&begin).is_some() {
                parts.small.insert(begin, self.bytes(body, len)?);
            } else {
                parts.objects.insert(begin, self.object(body, len)?);
            }
        }
        let size = self.file.size;
        let planned = PlannedFile::of_header(header, raw, size, &parts, self.threads)
            .map_err(|failure| changed(failure, self.file))?;
        let jobs = &planned.plan.jobs;
        // Packs first: should there be too many large tensors, some of these are in packs as well.
        let mut packs = Vec::new();
        for job in jobs.iter().filter(|job| job.run_at().is_none()) {
            let mut bytes = vec![0; job.len() as usize];
            job.read(&parts, 0, &mut bytes)
                .map_err(|failure| changed(failure, self.file))?;
            packs.push(self.destination.publish(&bytes, &self.file.address)?);
        }
        let mut packs = packs.into_iter();
        let objects = jobs.iter().map(|job| match job.run_at() {
            Some(at) => parts.objects.remove(&at),
            None => packs.next(),
        });
        let objects = objects.collect::<Option<Vec<_>>>();
        let objects = objects.ok_or_else(|| {
            let source = io::Error::other("an object was not made (this is a bug)");
            let action = "read an archive";
            PullError::Machine { action, source }
        })?;
        Ok(PulledFile::read(self.file, planned, objects))
    }

    fn header(&self, body: &mut dyn Read) -> Result<(Header, Vec<u8>), PullError> {
        let size = self.file.size;
        let mut raw = self.bytes(body, size.min(LENGTH_FIELD_LEN))?;
        let json_len = raw.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
        if json_len <= MAX_HEADER_LEN.min(size.saturating_sub(LENGTH_FIELD_LEN)) {
            raw.extend(self.bytes(body, json_len)?);
        }
        Ok((parse_header(&raw, self.file)?, raw))
    }

    /// The next `len` bytes, which the caller knows to be few.
    fn bytes(&self, body: &mut dyn Read, len: u64) -> Result<Vec<u8>, PullError> {
        let mut bytes = Vec::new();
        let read = body.take(len).read_to_end(&mut bytes);
        read.map_err(|error| unreadable(self.file, &error))?;
        if (bytes.len() as u64) < len {
            let error = io::ErrorKind::UnexpectedEof.into();
            return Err(unreadable(self.file, &error));
        }
        Ok(bytes)
    }

    /// Publishes the next `len` bytes as an object.
    fn object(&self, body: &mut dyn Read, len: u64) -> Result<Published, PullError> {
        let staged = self.destination.stage(len, &self.file.address)?;
        let mut writing = Writing::new(&staged, 0..segment_count(len));
        let mut piece = vec![0; len.min(PIECE) as usize];
        let mut left = len;
        while left > 0 {
            let most = left.min(piece.len() as u64) as usize;
            let buffer = piece.get_mut(..most).unwrap_or_default();
            body.read_exact(buffer)
                .map_err(|error| unreadable(self.file, &error))?;
            writing.take(buffer)?;
            left -= most as u64;
        }
        let digests = writing.into_digests();
        staged.commit(&digests, &self.file.address)
    }
}
