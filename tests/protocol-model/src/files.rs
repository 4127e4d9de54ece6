//! The abstract file system: names, inodes, open file descriptions, locks.

/// Objects at most.
pub const OBJECTS: usize = 2;
/// Inodes at most.
pub const INODES: usize = 8;

/// What an inode contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Content {
    /// Nothing, or allocated zeros.
    Empty,
    /// A part of what it will be.
    Part,
    /// All bytes of this object.
    Whole(u8),
    /// Something went wrong with the hardware, and it has another length.
    Damaged,
}

/// Permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// 0600: nobody but the owner.
    Staged,
    /// 0444.
    Sealed,
    /// 0644: while an owner without capabilities is at R1.
    Writable,
}

/// A file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Inode {
    /// Its bytes.
    pub content: Content,
    /// Names that lead to it.
    pub links: u8,
    /// Its permissions.
    pub mode: Mode,
    /// It had an object's name once. The kernel gives an `O_TMPFILE` a first name, and none after it has
    /// lost its last (linkat(2), ENOENT).
    pub named: bool,
    /// It has been quarantined.
    pub set_aside: bool,
    /// Someone who was killed counted a reference to it ([`crate::variant::Variant::CountedReferences`]).
    pub counted: bool,
}

/// A lock on a whole file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lock {
    /// None.
    Free,
    /// Shared.
    Read,
    /// Exclusive.
    Write,
}

impl Lock {
    /// Whether two descriptions cannot have these at once.
    pub fn excludes(self, other: Self) -> bool {
        let both = self != Self::Free && other != Self::Free;
        both && (self == Self::Write || other == Self::Write)
    }
}

/// An open file description. It ends when neither descriptor nor mapping refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Description {
    /// Index of the inode.
    pub inode: u8,
    /// Its lock.
    pub lock: Lock,
    /// A descriptor refers to it.
    pub open: bool,
    /// A mapping refers to it.
    pub mapped: bool,
    /// Opened for writing as well.
    pub writable: bool,
}

impl Description {
    /// A descriptor of `inode` without a lock.
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
    /// The inodes; a free place is one that does not exist.
    pub inodes: [Option<Inode>; INODES],
    /// `objects-v1`.
    pub objects: Folder,
    /// `quarantine-v1`.
    pub quarantine: Folder,
}

impl Files {
    /// The inode at `index`.
    ///
    /// # Panics
    /// When there is none: only descriptions and names lead to an inode, and they keep it.
    pub fn inode(&self, index: u8) -> &Inode {
        let inode = self.inodes[usize::from(index)].as_ref();
        inode.expect("an inode that is referred to")
    }

    /// The inode at `index`, to change it.
    pub fn inode_mut(&mut self, index: u8) -> &mut Inode {
        let inode = self.inodes[usize::from(index)].as_mut();
        inode.expect("an inode that is referred to")
    }

    /// Makes an unnamed file.
    pub fn create(&mut self) -> u8 {
        let free = self.inodes.iter().position(Option::is_none);
        let free = free.expect("as many inodes as the processes can need");
        self.inodes[free] = Some(Inode {
            content: Content::Empty,
            links: 0,
            mode: Mode::Staged,
            named: false,
            set_aside: false,
            counted: false,
        });
        free as u8
    }

    /// Where the name of `object` leads.
    pub fn lookup(&self, object: u8) -> Option<u8> {
        self.objects[usize::from(object)]
    }

    /// `linkat` to the name of `object`, which is free. `false` when the kernel refuses.
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

    /// `unlink` of the name of `object`, whatever it leads to.
    pub fn unlink(&mut self, object: u8) {
        if let Some(inode) = self.objects[usize::from(object)].take() {
            self.inode_mut(inode).links -= 1;
        }
    }

    /// `rename` of the name of `object` into the quarantine.
    pub fn set_aside(&mut self, object: u8) {
        let object = usize::from(object);
        let Some(inode) = self.objects[object] else {
            return;
        };
        self.inode_mut(inode).set_aside = true;
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
