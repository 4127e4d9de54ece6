//! Meanings of the words in the tables, for the terminal and the page.

/// Words of the tables with a common meaning.
pub struct Term {
    /// The words, as the tables have them.
    pub words: &'static [&'static str],
    /// Their meaning.
    pub meaning: &'static str,
}

/// The words, in the order of the tables.
pub const TERMS: &[Term] = &[
    Term {
        words: &["instances", "inst."],
        meaning: "processes that load the models of their group and stay alive",
    },
    Term {
        words: &["logical"],
        meaning: "tensors that the processes can address, summed over them: private copies would \
                  take that much",
    },
    Term {
        words: &["physical", "memory of the group"],
        meaning: "memory that the group takes, each page counted once: pages of the processes, \
                  page tables, and pages of the store that no process maps",
    },
    Term {
        words: &["each further"],
        meaning: "physical memory that an instance after the first adds",
    },
    Term {
        words: &["anonymous", "file pages", "tmpfs"],
        meaning: "private memory, pages of mapped files, and pages of the tensor store",
    },
    Term {
        words: &["page tables"],
        meaning: "memory of the kernel for the mappings of the processes",
    },
    Term {
        words: &["2 MiB pages"],
        meaning: "part of the tensors that is mapped by large pages",
    },
    Term {
        words: &["MemAvailable"],
        meaning: "change of the machine's available memory; clean file pages count as available, \
                  although they are in use",
    },
    Term {
        words: &["files", "new", "seen"],
        meaning: "starts with files that no earlier instance of the group had loaded (new), or \
                  that one had (seen); a copy counts as its original",
    },
    Term {
        words: &["starts"],
        meaning: "number of starts behind the medians",
    },
    Term {
        words: &["attach"],
        meaning: "time until all tensors are addressable",
    },
    Term {
        words: &["touch"],
        meaning: "time of one read per 4 KiB, after attaching",
    },
    Term {
        words: &["first result"],
        meaning: "time of attaching and of the first pass over every tensor",
    },
    Term {
        words: &["pass", "/ private"],
        meaning: "time of a matrix-vector product with every tensor, and its ratio to that on \
                  private memory",
    },
    Term {
        words: &["p95"],
        meaning: "95th percentile of the column before; the others are medians",
    },
    Term {
        words: &["ended by", ">="],
        meaning: "event that ended the count of instances under a limit; after a cap or without \
                  more copies the memory was not full, so more might fit",
    },
    Term {
        words: &["peak"],
        meaning: "maximum memory under the limit",
    },
];

/// Returns true if the legend has a word.
#[cfg(test)]
pub fn explains(word: &str) -> bool {
    TERMS.iter().any(|term| term.words.contains(&word))
}
