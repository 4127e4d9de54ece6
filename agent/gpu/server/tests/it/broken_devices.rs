//! The conformance suite detects devices that break its rules.

use std::sync::Arc;

use crate::conformance::{Broken, PeerReport, act_as_peer, check, check_pair};
use tetris_gpu_device::host::{
    HostChunk, HostDevice, HostEvent, HostMapping, HostPinned, HostRange, HostRegistration,
    HostStream,
};
use tetris_gpu_device::{
    Capabilities, DeviceInfo, DeviceMemory, Exported, HostSlice, Mapped, MemoryError, MemoryKind,
    Protection,
};
use tetris_store_layout::Digest;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Defect {
    None,
    CopiesBesideThePlace,
    DoesNotCheckPlaces,
    EventsComeEarly,
    KeepsSources,
    WritesReadOnly,
    ImportsAnything,
    CreatesAnySize,
    LosesWhatIsUnmapped,
    RegistersNothing,
    ClearsNothing,
    FreesNothing,
    CopiesAcrossBeside,
    CopiesAcrossAnything,
    CopiesWithoutALink,
}

struct Defective {
    inner: HostDevice,
    defect: Defect,
}

impl Defective {
    fn has(&self, defect: Defect) -> bool {
        self.defect == defect
    }
}

impl DeviceMemory for Defective {
    const KIND: MemoryKind = MemoryKind::Host;

    type Range = HostRange;
    type Chunk = HostChunk;
    type Mapping = HostMapping;
    type Stream = HostStream;
    type Event = HostEvent;
    type Pinned = HostPinned;
    type Registration = HostRegistration;

    fn info(&self) -> Result<DeviceInfo, MemoryError> {
        self.inner.info()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn reserve(&self, bytes: u64) -> Result<HostRange, MemoryError> {
        self.inner.reserve(bytes)
    }

    fn create(&self, bytes: u64) -> Result<HostChunk, MemoryError> {
        let granule = self.capabilities().granule_bytes;
        if self.has(Defect::CreatesAnySize) {
            return self
                .inner
                .create(bytes.next_multiple_of(granule).max(granule));
        }
        self.inner.create(bytes)
    }

    fn export(&self, chunk: &HostChunk) -> Result<Exported, MemoryError> {
        self.inner.export(chunk)
    }

    fn import(&self, exported: Exported, bytes: u64) -> Result<HostChunk, MemoryError> {
        if self.has(Defect::ImportsAnything) {
            return self.inner.create(bytes);
        }
        self.inner.import(exported, bytes)
    }

    fn map(
        &self,
        range: HostRange,
        chunk: &HostChunk,
        protection: Protection,
    ) -> Result<HostMapping, MemoryError> {
        if self.has(Defect::WritesReadOnly) {
            return self.inner.map(range, chunk, Protection::ReadWrite);
        }
        self.inner.map(range, chunk, protection)
    }

    fn unmap(&self, mapping: HostMapping) -> Result<HostRange, MemoryError> {
        if self.has(Defect::LosesWhatIsUnmapped) {
            let mapping = Arc::new(mapping);
            let zeros = vec![0u8; mapping.bytes() as usize];
            let mut stream = self.inner.stream()?;
            let from = HostSlice::whole(Arc::new(zeros));
            self.inner.copy_in(&mut stream, &mapping, 0, from)?;
            self.inner.synchronize(&mut stream)?;
            return self.inner.reserve(mapping.bytes());
        }
        self.inner.unmap(mapping)
    }

    fn release(&self, chunk: HostChunk) -> Result<(), MemoryError> {
        self.inner.release(chunk)
    }

    fn stream(&self) -> Result<HostStream, MemoryError> {
        self.inner.stream()
    }

    fn copy_in(
        &self,
        stream: &mut HostStream,
        to: &Arc<HostMapping>,
        offset: u64,
        from: HostSlice,
    ) -> Result<(), MemoryError> {
        let end = offset.saturating_add(from.bytes().len() as u64);
        if self.has(Defect::CopiesBesideThePlace) && end < to.bytes() {
            return self.inner.copy_in(stream, to, offset + 1, from);
        }
        if self.has(Defect::DoesNotCheckPlaces) && end > to.bytes() {
            return Ok(());
        }
        self.inner.copy_in(stream, to, offset, from)
    }

    fn is_linked(&self, from: &Self) -> Result<bool, MemoryError> {
        Ok(!self.has(Defect::CopiesWithoutALink) && self.inner.is_linked(&from.inner)?)
    }

    fn copy_across(
        &self,
        stream: &mut HostStream,
        to: &Arc<HostMapping>,
        offset: u64,
        source: &Self,
        from: &Arc<HostMapping>,
        part: std::ops::Range<u64>,
    ) -> Result<(), MemoryError> {
        let is_inside = part.end <= from.bytes() && offset <= to.bytes() - (part.end - part.start);
        if self.has(Defect::CopiesAcrossAnything) && !is_inside {
            return Ok(());
        }
        let beside = self.has(Defect::CopiesAcrossBeside) && offset > 0;
        let offset = offset - u64::from(beside);
        let (source, inner) = (&source.inner, &self.inner);
        inner.copy_across(stream, to, offset, source, from, part)
    }

    fn record(&self, stream: &mut HostStream) -> Result<HostEvent, MemoryError> {
        self.inner.record(stream)
    }

    fn is_done(&self, event: &HostEvent) -> Result<bool, MemoryError> {
        self.inner.is_done(event)
    }

    fn wait(&self, event: &HostEvent) -> Result<(), MemoryError> {
        if self.has(Defect::EventsComeEarly) {
            return Ok(());
        }
        self.inner.wait(event)
    }

    fn settle(&self, stream: &mut HostStream) -> Result<(), MemoryError> {
        if self.has(Defect::KeepsSources) {
            return Ok(());
        }
        self.inner.settle(stream)
    }

    fn synchronize(&self, stream: &mut HostStream) -> Result<(), MemoryError> {
        self.inner.synchronize(stream)
    }

    fn read_back(&self, from: &HostMapping, offset: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        self.inner.read_back(from, offset, to)
    }

    fn clear(&self, mapping: &HostMapping) -> Result<(), MemoryError> {
        if self.has(Defect::ClearsNothing) {
            return Ok(());
        }
        self.inner.clear(mapping)
    }

    fn reclaim(&self, chunk: HostChunk, mapping: HostMapping) -> Result<bool, MemoryError> {
        if self.has(Defect::FreesNothing) {
            std::mem::forget((chunk, mapping));
            return Ok(false);
        }
        self.inner.reclaim(chunk, mapping)
    }

    fn finish(&self) -> Result<(), MemoryError> {
        self.inner.finish()
    }

    fn pinned(&self, bytes: usize) -> Result<HostPinned, MemoryError> {
        self.inner.pinned(bytes)
    }

    fn register(&self, memory: HostSlice) -> Result<HostRegistration, MemoryError> {
        if self.has(Defect::RegistersNothing) {
            return Err(MemoryError::Unsupported {
                what: "registering",
                next: "nothing",
            });
        }
        self.inner.register(memory)
    }
}

fn with(defect: Defect) -> Defective {
    let inner = HostDevice::new(64 << 20);
    Defective { inner, defect }
}

/// Checks a defective device, with a correct one in the role of the other process.
fn verdict(defect: Defect) -> Result<(), Broken> {
    let sound = HostDevice::new(64 << 20);
    check(&with(defect), &mut |exported, bytes| {
        act_as_peer(&sound, exported, bytes).map_err(|error| error.to_string())
    })
}

#[test]
fn every_defect_is_noticed() {
    verdict(Defect::None).unwrap();
    for defect in [
        Defect::CopiesBesideThePlace,
        Defect::DoesNotCheckPlaces,
        Defect::EventsComeEarly,
        Defect::KeepsSources,
        Defect::WritesReadOnly,
        Defect::ImportsAnything,
        Defect::CreatesAnySize,
        Defect::LosesWhatIsUnmapped,
        Defect::RegistersNothing,
        Defect::ClearsNothing,
        Defect::FreesNothing,
    ] {
        let verdict = verdict(defect);
        assert!(
            matches!(verdict, Err(Broken::Rule { .. })),
            "{defect:?}: {verdict:?}"
        );
    }
}

/// Checks copies to a defective device from a sound one linked to it.
fn verdict_across(defect: Defect) -> Result<bool, Broken> {
    let device = |number, defect| Defective {
        inner: HostDevice::numbered(number, 1, 64 << 20),
        defect,
    };
    check_pair(&device(1, defect), &device(0, Defect::None))
}

#[test]
fn defects_between_devices_are_noticed() {
    assert!(verdict_across(Defect::None).unwrap());
    for defect in [
        Defect::CopiesAcrossBeside,
        Defect::CopiesAcrossAnything,
        Defect::CopiesWithoutALink,
        Defect::EventsComeEarly,
        Defect::KeepsSources,
    ] {
        let verdict = verdict_across(defect);
        assert!(
            matches!(verdict, Err(Broken::Rule { .. })),
            "{defect:?}: {verdict:?}"
        );
    }
}

#[test]
fn what_another_process_sees_counts() {
    let good = PeerReport {
        digest: Digest::of(b""),
        mapped_read_only: true,
        mapped_for_writing: false,
    };
    let sound = HostDevice::new(64 << 20);
    for lie in 0..3 {
        let verdict = check(&with(Defect::None), &mut |exported, bytes| {
            let truth = act_as_peer(&sound, exported, bytes).map_err(|error| error.to_string())?;
            Ok(match lie {
                0 => good,
                1 => PeerReport {
                    mapped_read_only: false,
                    ..truth
                },
                _ => PeerReport {
                    mapped_for_writing: true,
                    ..truth
                },
            })
        });
        assert!(
            matches!(verdict, Err(Broken::Rule { .. })),
            "{lie}: {verdict:?}"
        );
    }
    let failed = check(&with(Defect::None), &mut |_, _| Err("killed".to_owned()));
    assert!(matches!(failed, Err(Broken::Peer(_))));
}
