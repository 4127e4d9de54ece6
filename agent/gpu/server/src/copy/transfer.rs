//! State of one transfer.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use tetris_store_layout::ObjectId;

use super::gather::{Gathering, Part};
use super::registrar::Registered;
use super::{CopyError, Group, Piece, Progress, Registrar, Report, TransferPlan};
use crate::arena::ChunkId;
use tetris_gpu_device::{DeviceMemory, HostSlice};

/// State of one transfer.
pub(super) struct Transfer<'a, D: DeviceMemory> {
    pub plan: &'a TransferPlan,
    pub source: &'a dyn Fn(&ObjectId) -> Option<HostSlice>,
    pub targets: &'a BTreeMap<ChunkId, Arc<D::Mapping>>,
    pub ready: &'a mut dyn FnMut(ObjectId),
    /// The registrar's number of it.
    pub number: u64,
    pub progress: Progress,
    /// Groups that are not queued on a stream yet, in order.
    pub pending: VecDeque<Pending<D>>,
    /// Groups that are.
    pub flights: VecDeque<Flight<D>>,
    /// Owners of which bytes were staged, by address.
    pub staged: BTreeMap<usize, HostSlice>,
    pub report: Report,
}

/// A group whose bytes are being gathered, or need not be.
pub(super) struct Pending<D: DeviceMemory> {
    pub number: usize,
    pub copies: Copies<D>,
    /// The buffer for the staged copies.
    pub gathering: Option<Gathering<D::Pinned>>,
}

/// A group in flight.
pub(super) struct Flight<D: DeviceMemory> {
    pub number: usize,
    pub event: D::Event,
    pub _pins: Vec<Arc<D::Registration>>,
}

/// Copies of a group.
pub(super) struct Copies<D: DeviceMemory> {
    pub target: Arc<D::Mapping>,
    /// Copies from registered memory, to these offsets of the chunk.
    pub direct: Vec<(u64, Registered<D>)>,
    /// Copies from a buffer.
    pub staged: Vec<Run>,
    /// The buffer's content.
    pub parts: Vec<Part>,
}

/// Adjacent staged pieces: one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Offset in the chunk, in bytes.
    pub to: u64,
    /// Offset in the buffer, in bytes.
    pub from: u64,
    /// Length in bytes.
    pub len: u64,
}

impl<D: DeviceMemory> Transfer<'_, D> {
    /// Splits a group into copies from registered memory and copies from a buffer.
    pub fn copies(
        &mut self,
        group: &Group,
        registrar: &Registrar<D>,
    ) -> Result<Copies<D>, CopyError> {
        let target = self.targets.get(&group.chunk);
        let target = target.ok_or(CopyError::NoTarget { chunk: group.chunk })?;
        let mut copies = Copies {
            target: Arc::clone(target),
            direct: Vec::new(),
            staged: Vec::new(),
            parts: Vec::new(),
        };
        let mut extends = false;
        for piece in &group.pieces {
            let from = self.source_of(piece)?;
            if let Some(registered) = registrar.find(&from, self.number) {
                let first = from.offset();
                let placed = registered
                    .into_iter()
                    .map(|registered| (piece.to + registered.memory.offset() - first, registered));
                copies.direct.extend(placed);
                self.report.direct_bytes += piece.len;
                extends = false;
            } else {
                let owner = from.owner_bytes().as_ptr() as usize;
                self.staged.entry(owner).or_insert_with(|| from.of_owner());
                copies.stage(group, piece, from, extends);
                self.report.staged_bytes += piece.len;
                extends = true;
            }
        }
        Ok(copies)
    }

    fn source_of(&self, piece: &Piece) -> Result<HostSlice, CopyError> {
        let object = piece.object;
        let whole = (self.source)(&object).ok_or(CopyError::NoSource { object })?;
        Ok(whole.part(piece.from, piece.len)?)
    }
}

impl<D: DeviceMemory> Copies<D> {
    /// Adds a piece to the buffer: to the last run, or as a new one.
    fn stage(&mut self, group: &Group, piece: &Piece, from: HostSlice, extends: bool) {
        let at = piece.to - group.start();
        let mut gap = 0;
        if let Some(run) = self.staged.last_mut().filter(|_| extends) {
            gap = at - (run.from + run.len);
            run.len += gap + piece.len;
        } else {
            self.staged.push(Run {
                to: piece.to,
                from: at,
                len: piece.len,
            });
        }
        self.parts.push(Part {
            at: at as usize,
            gap: gap as usize,
            from,
        });
    }
}
