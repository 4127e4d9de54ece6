//! Access of mappings.

/// Access of a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// `PROT_READ, MAP_SHARED`: no one can write through it.
    #[default]
    ReadOnly,
    /// `PROT_READ | PROT_WRITE, MAP_PRIVATE`: a write copies the page for this process alone, the
    /// store is not touched.
    CopyOnWrite,
    /// As [`Access::ReadOnly`], but over a file opened for writing, where this process may do
    /// that: a driver can then register the pages ([`Mapping::while_writable`](crate::Mapping::while_writable)). No one writes through
    /// it either. Becomes [`Access::ReadOnly`] where this process may not open the file for writing.
    Registrable,
}
