//! The abstract file system: names, inodes, open file descriptions, locks.

/// Maximum number of objects.
pub const OBJECTS: usize = 2;
/// Maximum number of inodes.
pub const INODES: usize = 8;

/// Content of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// No bytes, or allocated zeros.
    Empty,
    /// A part of the final bytes.
    Part,
    /// All bytes of this object.
    Whole(u8),
    /// Damaged, with another length, as after a hardware fault.
    Damaged,
}

/// Permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// 0600: only the owner has access.
    Staged,
    /// 0444.
    Sealed,
    /// 0644: while an owner without capabilities is at R1.
    Writable,
}

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Its content.
    pub content: Content,
    /// Number of names that lead to it.
    pub links: u8,
    /// Its permissions.
    pub mode: Mode,
    /// True if it has ever had an object's name. The kernel gives an `O_TMPFILE` a first name, and
    /// none after it has lost its last (linkat(2), ENOENT).
    pub named: bool,
    /// True if it has been quarantined.
    pub quarantined: bool,
    /// True if a killed process had counted a reference to it
    /// ([`crate::variant::Variant::CountedReferences`]).
    pub counted: bool,
}

/// A lock on a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lock {
    /// No lock.
    Free,
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

impl Lock {
    /// Returns true if two descriptions cannot have these locks at once.
    pub fn excludes(self, other: Self) -> bool {
        let both = self != Self::Free && other != Self::Free;
        both && (self == Self::Write || other == Self::Write)
    }
}

/// An open file description. It ends when no descriptor and no mapping refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Description {
    /// Index of the inode.
    pub inode: u8,
    /// Its lock.
    pub lock: Lock,
    /// True if a descriptor refers to it.
    pub open: bool,
    /// True if a mapping refers to it.
    pub mapped: bool,
    /// True if it was opened for writing as well.
    pub writable: bool,
}

impl Description {
    /// Creates a descriptor of `inode` without a lock.
    pub fn new(inode: u8, writable: bool) -> Self {
        Self {
            inode,
            lock: Lock::Free,
            open: true,
            mapped: false,
            writable,
        }
    }
}

/// The names in a folder, by object.
pub type Folder = [Option<u8>; OBJECTS];

/// The file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Files {
    /// The inodes; `None` marks an unused index.
    pub inodes: [Option<Inode>; INODES],
    /// `objects-v1`.
    pub objects: Folder,
    /// `quarantine-v1`.
    pub quarantine: Folder,
}

impl Files {
    /// Returns the inode at `index`.
    ///
    /// # Panics
    /// If there is none: only descriptions and names lead to an inode, and they keep it.
    pub fn inode(&self, index: u8) -> &Inode {
        let inode = self.inodes[usize::from(index)].as_ref();
        inode.expect("an inode that is referred to")
    }

    /// Returns the inode at `index` for changes.
    pub fn inode_mut(&mut self, index: u8) -> &mut Inode {
        let inode = self.inodes[usize::from(index)].as_mut();
        inode.expect("an inode that is referred to")
    }

    /// Creates an unnamed file. Returns its index.
    pub fn create(&mut self) -> u8 {
        let free = self.inodes.iter().position(Option::is_none);
        let free = free.expect("as many inodes as the processes can need");
        self.inodes[free] = Some(Inode {
            content: Content::Empty,
            links: 0,
            mode: Mode::Staged,
            named: false,
            quarantined: false,
            counted: false,
        });
        free as u8
    }

    /// Returns the inode of the name of `object`.
    pub fn lookup(&self, object: u8) -> Option<u8> {
        self.objects[usize::from(object)]
    }

    /// Links `inode` to the name of `object` (`linkat`), which must be free. Returns false if the
    /// kernel refuses.
    pub fn link(&mut self, inode: u8, object: u8) -> bool {
        let file = self.inode_mut(inode);
        if file.links == 0 && file.named {
            return false;
        }
        file.links += 1;
        file.named = true;
        self.objects[usize::from(object)] = Some(inode);
        true
    }

    /// Unlinks the name of `object` from any inode (`unlink`).
    pub fn unlink(&mut self, object: u8) {
        if let Some(inode) = self.objects[usize::from(object)].take() {
            self.inode_mut(inode).links -= 1;
        }
    }

    /// Moves the name of `object` into the quarantine (`rename`).
    pub fn quarantine(&mut self, object: u8) {
        let object = usize::from(object);
        let Some(inode) = self.objects[object] else {
            return;
        };
        self.inode_mut(inode).quarantined = true;
        // Two names of one file: rename(2) does nothing and succeeds.
        if self.quarantine[object] == Some(inode) {
            return;
        }
        if let Some(earlier) = self.quarantine[object].replace(inode) {
            self.inode_mut(earlier).links -= 1;
        }
        self.objects[object] = None;
    }
}
