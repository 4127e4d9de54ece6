//! Notes for the reader of the figures.

use std::path::Path;

use crate::data::WorkloadReport;
use crate::figures::bars;
use crate::methods::Method;
use crate::system::machine::Machine;
use crate::workload::Source;

/// Load average above which another program was running.
const BUSY: f64 = 0.5;

/// Notes for a run on this machine.
pub fn of(
    machine: &Machine,
    source: Source,
    workdir: &Path,
    methods: &[Method],
    workloads: &[WorkloadReport],
) -> Vec<String> {
    let mut notes: Vec<String> = [
        "Memory of the group is the sum of the processes' PSS (each page once, divided among the processes that map it), \
         their page tables, and pages of the tensor store that no process maps at that moment. Pages of a mapped file \
         are page cache: they are in the PSS, once for page-cache and once per copy for own-file.",
        "The change of MemAvailable counts clean file pages as available although they are in use, so page-cache and \
         own-file seem to cost nothing there; dropping those pages means reading them again at each pass. \
         Heap, merged and store pages can't be dropped.",
        "2 MiB pages is the part of the tensors that is mapped by large pages. The kernel gives them only while it has \
         unbroken memory: the store, huge=within_size or not, gets less of them on a machine that has been busy, and then \
         its page tables and touch times grow.",
        "private and tetris read a file that is in the page cache; that cache is not part of the group.",
        "page-cache maps a file that was dropped and read in again by large reads, which gives the page cache at its \
         best. own-file maps a copy written in pieces of 16 KiB, like a download, and not written back before.",
        "Instances start one after the other. attach ends when every tensor is addressable, touch reads one byte \
         per 4 KiB, first result includes both and the first pass. The start of the process itself is not included.",
        "Right before a start that takes new memory (private, ksm, first loads into the store), as much memory is touched \
         and given back, so that a virtual machine has it backed by its host and no method pays for that.",
        "A pass multiplies every tensor with a vector, in place. The pass column is from one instance per method, all \
         alive at once and asked by turns; for methods that are not in that comparison, from their own group.",
        "Under a limit, workers enter a fresh cgroup before they load, with their files dropped from the page cache. \
         Because clean file pages can be reclaimed, an instance counts only if a pass of all live instances takes no \
         longer than 3 times that of one alone (byte for byte, best of three rounds; above 8 instances, looked at every 4). With tetris, the first instance writes the store and is charged for it.",
    ]
    .into_iter()
    .map(str::to_owned)
    .collect();
    if matches!(source, Source::Table4(_)) {
        notes.push(
            "Table 4 gives the sizes of the models, not their architectures: each is a stack of layers of that size."
                .to_owned(),
        );
    }
    if source.is_own()
        && let Some(reason) = bars::unavailable(workloads)
    {
        notes.push(reason);
    }
    if methods.iter().any(|method| method.needs_python()) {
        notes.push(
            "The torch methods are Python processes that imported PyTorch and their loader before they entered a group or a \
             limit. Their memory has the interpreters in it, which is given beside the table: mean of a group of the same \
             size that loaded a model of one page. Their checksums are sums over the bits of the weights and are compared with \
             each other, those of cast weights among themselves; a pass is a matrix-vector product by PyTorch on one core."
                .to_owned(),
        );
    }
    if workdir.starts_with("/dev/shm") {
        notes.push(
            "The work directory is in memory, so own-file copies can't be reclaimed; use a disk."
                .to_owned(),
        );
    }
    if machine.load_average > BUSY {
        notes.push(format!(
            "The load average was {:.2} when the run began: another program was running, and the times are noisy.",
            machine.load_average
        ));
    }
    notes
}
