//! Members of a tar archive, in bounded memory.
//!
//! The crate `tar` parses headers. Its own iterator keeps long names of any length, so the few kinds of entries that
//! tools write are distinguished here.

use std::io::{self, Read};

use tar::{EntryType, Header, PaxExtensions};

/// Longest name, or set of attributes, of a member in bytes.
const MAX_EXTENSION: u64 = 1 << 20;
/// Length of a header, and the unit of all lengths.
const BLOCK: u64 = 512;

/// A member of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Member {
    /// Path from the archive's root, as it is there.
    pub(super) path: String,
    pub(super) content: Content,
}

/// The content of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A file, whose bytes follow.
    File { size: u64 },
    /// Another name of the file at `target`, a path from the archive's root.
    HardLink { target: String },
    /// A link to `target`, a path from the link's folder.
    SymbolicLink { target: String },
    /// A folder, or a device.
    Other,
    /// A file with holes, in a form that only its own tool reads.
    Sparse,
}

/// Attributes that stand before a member whose header has no room for them.
#[derive(Default)]
struct Attributes {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    is_sparse: bool,
}

/// Reads an archive.
pub(super) struct Members<R> {
    reader: R,
    /// Bytes left of the current member.
    left: u64,
    /// Bytes behind it, up to the next header.
    padding: u64,
}

impl<R: Read> Members<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            left: 0,
            padding: 0,
        }
    }

    /// The next member; `None` at the end of the archive. The rest of the last one is skipped.
    pub(super) fn next(&mut self) -> io::Result<Option<Member>> {
        self.skip()?;
        let mut attributes = Attributes::default();
        while let Some(header) = self.header()? {
            let size = header.entry_size()?;
            match header.entry_type() {
                EntryType::GNULongName => attributes.path = Some(self.name(size)?),
                EntryType::GNULongLink => attributes.link = Some(self.name(size)?),
                EntryType::XHeader => self.attributes(size, &mut attributes)?,
                EntryType::XGlobalHeader => drop(self.extension(size)?),
                kind => return self.member(kind, &header, size, attributes).map(Some),
            }
        }
        Ok(None)
    }

    /// The reader, behind what was read of it.
    pub(super) fn into_inner(self) -> R {
        self.reader
    }

    /// The reader, for its limits.
    pub(super) fn reader_mut(&mut self) -> &mut R {
        &mut self.reader
    }

    fn member(
        &mut self,
        kind: EntryType,
        header: &Header,
        size: u64,
        attributes: Attributes,
    ) -> io::Result<Member> {
        let text = |bytes: Vec<u8>, name| {
            String::from_utf8(bytes).map_err(|_| invalid(format!("a {name} is no UTF-8")))
        };
        let path = match attributes.path {
            Some(path) => path,
            None => header.path_bytes().into_owned(),
        };
        let path = text(path, "path")?;
        let size = attributes.size.unwrap_or(size);
        let target = || {
            let link = header.link_name_bytes().unwrap_or_default();
            text(attributes.link.unwrap_or(link.into_owned()), "link")
        };
        // Some tools give links a size, which has no bytes.
        let has_bytes = !matches!(
            kind,
            EntryType::Link
                | EntryType::Symlink
                | EntryType::Directory
                | EntryType::Char
                | EntryType::Block
                | EntryType::Fifo
        );
        if has_bytes {
            self.left = size;
            self.padding = padding(size);
        }
        let content = match kind {
            _ if attributes.is_sparse => Content::Sparse,
            EntryType::GNUSparse => Content::Sparse,
            // Archives of before POSIX name folders so.
            EntryType::Regular if path.ends_with('/') => Content::Other,
            EntryType::Regular | EntryType::Continuous => Content::File { size },
            EntryType::Link => Content::HardLink { target: target()? },
            EntryType::Symlink => Content::SymbolicLink { target: target()? },
            _ => Content::Other,
        };
        Ok(Member { path, content })
    }

    /// The next header; `None` at the end.
    fn header(&mut self) -> io::Result<Option<Header>> {
        let mut header = Header::new_old();
        if !fill(&mut self.reader, header.as_mut_bytes())? {
            return Ok(None);
        }
        if header.as_bytes().iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
        let mut summed = header.clone();
        summed.set_cksum();
        if summed.cksum()? != header.cksum()? {
            return Err(invalid("a header does not have its checksum"));
        }
        Ok(Some(header))
    }

    /// A name in an entry before the member.
    fn name(&mut self, size: u64) -> io::Result<Vec<u8>> {
        let mut name = self.extension(size)?;
        let len = name.iter().position(|byte| *byte == 0);
        name.truncate(len.unwrap_or(name.len()));
        Ok(name)
    }

    fn attributes(&mut self, size: u64, attributes: &mut Attributes) -> io::Result<()> {
        for attribute in PaxExtensions::new(&self.extension(size)?) {
            let attribute = attribute?;
            let value = attribute.value_bytes();
            match attribute.key_bytes() {
                b"path" => attributes.path = Some(value.to_vec()),
                b"linkpath" => attributes.link = Some(value.to_vec()),
                b"size" => {
                    let size = std::str::from_utf8(value).ok();
                    let size = size.and_then(|size| size.parse().ok());
                    let size = size.ok_or_else(|| invalid("a size is no number"))?;
                    attributes.size = Some(size);
                }
                key => attributes.is_sparse |= key.starts_with(b"GNU.sparse."),
            }
        }
        Ok(())
    }

    /// The bytes of an entry that describes the next one.
    fn extension(&mut self, size: u64) -> io::Result<Vec<u8>> {
        if size > MAX_EXTENSION {
            return Err(invalid(format!(
                "a name or a set of attributes has {size} bytes, expected at most {MAX_EXTENSION}"
            )));
        }
        let mut bytes = vec![0; size as usize];
        self.reader.read_exact(&mut bytes)?;
        skip(&mut self.reader, padding(size))?;
        Ok(bytes)
    }

    fn skip(&mut self) -> io::Result<()> {
        let left = std::mem::take(&mut self.left);
        skip(&mut self.reader, left)?;
        skip(&mut self.reader, std::mem::take(&mut self.padding))
    }
}

/// Reads the current member.
impl<R: Read> Read for Members<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let len = self
            .reader
            .read(buffer.get_mut(..most).unwrap_or_default())?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= len as u64;
        Ok(len)
    }
}

/// Zeros behind `size` bytes.
fn padding(size: u64) -> u64 {
    (BLOCK - size % BLOCK) % BLOCK
}

/// Reads exactly `len` bytes and drops them.
fn skip(reader: &mut impl Read, len: u64) -> io::Result<()> {
    if io::copy(&mut reader.take(len), &mut io::sink())? < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(())
}

/// Fills `buffer`; returns false at the end of the bytes.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<bool> {
    let mut first = [0];
    let len = loop {
        match reader.read(&mut first) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    let Some((begin, rest)) = buffer.split_first_mut().filter(|_| len > 0) else {
        return Ok(false);
    };
    *begin = first[0];
    reader.read_exact(rest)?;
    Ok(true)
}

fn invalid(problem: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, problem.into())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn members(bytes: &[u8]) -> io::Result<Vec<(Member, Vec<u8>)>> {
        let mut members = Members::new(bytes);
        let mut all = Vec::new();
        while let Some(member) = members.next()? {
            let mut content = Vec::new();
            members.read_to_end(&mut content)?;
            all.push((member, content));
        }
        Ok(all)
    }

    fn append(archive: &mut tar::Builder<Vec<u8>>, kind: EntryType, path: &str, content: &[u8]) {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        archive.append_data(&mut header, path, content).unwrap();
    }

    fn archive() -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        append(&mut archive, EntryType::Directory, "models/", b"");
        append(&mut archive, EntryType::Regular, "models/a", &[7; 700]);
        let long = format!("models/{}", "n".repeat(300));
        append(&mut archive, EntryType::Regular, &long, b"");
        let mut link = Header::new_gnu();
        link.set_entry_type(EntryType::Symlink);
        link.set_size(0);
        archive.append_link(&mut link, "models/b", "a").unwrap();
        let attributes: [(&str, &[u8]); 2] = [("path", b"models/pax"), ("size", b"3")];
        archive.append_pax_extensions(attributes).unwrap();
        let mut header = Header::new_ustar();
        header.set_size(0);
        header.set_path("short").unwrap();
        header.set_cksum();
        // As of files above 8 GiB: the header has 0, and the attribute the size.
        archive.append(&header, io::empty()).unwrap();
        let mut bytes = archive.into_inner().unwrap();
        bytes.truncate(bytes.len() - 1024);
        bytes.extend(b"abc");
        bytes.resize(bytes.len().next_multiple_of(512) + 1024, 0);
        bytes
    }

    #[test]
    fn members_have_the_names_sizes_and_links_of_their_extensions() {
        let members = members(&archive()).unwrap();
        let file = |path: &str, size| Member {
            path: path.to_owned(),
            content: Content::File { size },
        };
        let names: Vec<_> = members.iter().map(|(member, _)| member.clone()).collect();
        let folder = Member {
            path: "models/".to_owned(),
            content: Content::Other,
        };
        let link = Member {
            path: "models/b".to_owned(),
            content: Content::SymbolicLink {
                target: "a".to_owned(),
            },
        };
        let long = format!("models/{}", "n".repeat(300));
        let expected = [
            folder,
            file("models/a", 700),
            file(&long, 0),
            link,
            file("models/pax", 3),
        ];
        assert_eq!(names, expected);
        assert_eq!(members[1].1, [7; 700]);
        assert_eq!(members[4].1, b"abc");
    }

    #[test]
    fn names_have_a_limit() {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::GNULongName);
        header.set_size(MAX_EXTENSION + 1);
        header.set_cksum();
        let error = members(header.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("at most"), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_archives_do_not_panic(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
            len in any::<prop::sample::Index>(),
        ) {
            let mut bytes = archive();
            for (index, byte) in changes {
                let index = index.index(bytes.len());
                bytes[index] = byte;
            }
            bytes.truncate(len.index(bytes.len()));
            let _refused_or_not = members(&bytes);
        }
    }
}
