//! Mounts of model folders, by FUSE.
//!
//! Files of tensors are composed at each read. The kernel keeps what programs read in its page cache while
//! a program has the file open, as it does for files of a disk, and once for all of them; with the last close it
//! is dropped. A file of one object is read from the object by the kernel itself where it can (Linux 6.9,
//! root), so programs that map it share the object's pages.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use fuser::{
    BackingId, Config, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, MountOption, Notifier, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, Request, Session, SessionACL,
};
use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use tetris_store_layout::{ManifestKind, ObjectRef};

use crate::error::FolderError;
use crate::folder::{FolderFile, ModelFolder, part};
use crate::tree::{Node, Tree};

/// Nothing in a mount changes.
const FOREVER: Duration = Duration::from_hours(24 * 365);
/// Most threads that answer the kernel: a copy of memory needs no more than the memory's bandwidth.
const MAX_THREADS: usize = 8;
const BLOCK_LEN: u32 = 4096;

/// Opens the file of an object.
pub type OpenObject = Box<dyn Fn(&ObjectRef) -> Option<File> + Send + Sync>;

/// Options of a mount.
pub struct MountOptions {
    /// Lets other users read it. For users other than root, `user_allow_other` in `/etc/fuse.conf` must permit it.
    pub allow_other: bool,
    /// Threads that answer the kernel.
    pub threads: usize,
    /// Opens objects, so that the kernel reads them by itself.
    pub open_object: OpenObject,
}

/// A mounted folder. It is unmounted when this is dropped.
pub struct Mounted {
    session: Session<Mount>,
    path: PathBuf,
    open_files: Arc<AtomicU64>,
}

/// Ends a mount from another thread.
#[derive(Debug)]
pub struct Unmounter {
    path: PathBuf,
    open_files: Arc<AtomicU64>,
}

impl Unmounter {
    /// Number of descriptions through which programs have files of the folder open.
    pub fn open_files(&self) -> u64 {
        self.open_files.load(Ordering::Relaxed)
    }

    /// Takes the folder away. Programs that have a file open can read it, and [`Mounted::serve`] returns when none has, and no
    /// mount namespace has a copy of the mount.
    ///
    /// # Errors
    /// When the kernel or `fusermount3` refuses.
    pub fn detach(&self) -> Result<(), FolderError> {
        let failed = |source| FolderError::Unmount {
            path: self.path.clone(),
            source,
        };
        match umount2(&self.path, MntFlags::MNT_DETACH) {
            // Only root unmounts by itself.
            Err(Errno::EPERM) => {}
            done => return done.map_err(|errno| failed(errno.into())),
        }
        let status = Command::new("fusermount3")
            .args(["-u", "-z", "-q", "--"])
            .arg(&self.path)
            .status()
            .map_err(failed)?;
        if status.success() {
            return Ok(());
        }
        Err(failed(io::Error::other(format!(
            "fusermount3 ended with {status}"
        ))))
    }
}

impl ModelFolder {
    /// Mounts the folder at `path`, a directory.
    ///
    /// # Errors
    /// When a path is a file and a folder, or the kernel refuses the mount.
    pub fn mount(self, path: &Path, options: MountOptions) -> Result<Mounted, FolderError> {
        let failed = |source: io::Error| FolderError::Mount {
            path: path.to_owned(),
            remedy: remedy(&source),
            source,
        };
        let shown = ShownFolder::new(self)?;
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName(format!(
                "tetris:{}",
                shown.folder.source_name().replace(',', "%2C")
            )),
            MountOption::Subtype("tetris".to_owned()),
            MountOption::RO,
            MountOption::NoDev,
            MountOption::NoSuid,
            MountOption::NoExec,
            MountOption::DefaultPermissions,
        ];
        config.acl = if options.allow_other {
            SessionACL::All
        } else {
            SessionACL::Owner
        };
        config.n_threads = Some(options.threads.clamp(1, MAX_THREADS));
        config.clone_fd = true;
        let mount = Mount::new(Arc::new(shown), options.open_object);
        let (notifier, open_files) = (Arc::clone(&mount.notifier), Arc::clone(&mount.open_files));
        // Later, another directory may be the current one.
        let path = path.canonicalize().map_err(failed)?;
        let session = Session::new(mount, &path, &config).map_err(failed)?;
        // The kernel asks for nothing before this is set that needs it.
        let _first = notifier.set(session.notifier());
        Ok(Mounted {
            session,
            path,
            open_files,
        })
    }
}

/// A model folder with the names of its files, for mounts that other processes make.
#[derive(Debug)]
pub struct ShownFolder {
    folder: ModelFolder,
    tree: Tree,
}

impl ShownFolder {
    /// Finds the names that mounts of `folder` show.
    ///
    /// # Errors
    /// When a path is a file and a folder.
    pub fn new(folder: ModelFolder) -> Result<Self, FolderError> {
        let tree = Tree::new(&folder.files).map_err(|problem| FolderError::Table {
            source_name: folder.source_name().to_owned(),
            problem,
        })?;
        Ok(Self { folder, tree })
    }

    /// The folder.
    pub fn model(&self) -> &ModelFolder {
        &self.folder
    }

    /// Answers for a mount, by its descriptor of `/dev/fuse`, with `threads`, until the mount ends.
    ///
    /// # Errors
    /// When the kernel cannot be talked with.
    pub fn serve(
        self: &Arc<Self>,
        device: OwnedFd,
        threads: usize,
        open_object: OpenObject,
    ) -> Result<(), FolderError> {
        let failed = |source| FolderError::Serve {
            path: "/dev/fuse".into(),
            source,
        };
        let mut config = Config::default();
        config.n_threads = Some(threads.clamp(1, MAX_THREADS));
        let mount = Mount::new(Arc::clone(self), open_object);
        let notifier = Arc::clone(&mount.notifier);
        let session = Session::from_fd(mount, device, SessionACL::All, config).map_err(failed)?;
        let _first = notifier.set(session.notifier());
        or_ended(session.run()).map_err(failed)
    }
}

impl Mounted {
    /// The handle that ends the mount.
    pub fn unmounter(&self) -> Unmounter {
        Unmounter {
            path: self.path.clone(),
            open_files: Arc::clone(&self.open_files),
        }
    }

    /// Answers the kernel until the folder is unmounted, by [`Unmounter`] or by anyone else.
    ///
    /// # Errors
    /// When the kernel cannot be talked with.
    pub fn serve(self) -> Result<(), FolderError> {
        let path = self.path;
        or_ended(self.session.run()).map_err(|source| FolderError::Serve { path, source })
    }
}

/// The end of a session, which is no error when the mount has gone. The kernel reports that as `ENODEV`, which ends
/// a session well, or as `ECONNABORTED` to a thread that was taking a request, e.g. the last release of a file.
fn or_ended(served: io::Result<()>) -> io::Result<()> {
    match served {
        Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(()),
        served => served,
    }
}

/// The next step for an error of mounting.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "make the directory first; users other than root need `fusermount3`, of the package fuse3"
        }
        io::ErrorKind::PermissionDenied => {
            "it needs /dev/fuse, and a directory that this user may write to"
        }
        _ => "it needs a directory, and a kernel with FUSE",
    }
}

impl FolderFile {
    /// The object with all bytes of the file, if it has one.
    fn whole(&self) -> Option<ObjectRef> {
        let manifest = self.stored()?.manifest;
        let whole = manifest.objects.first()?;
        (manifest.kind == ManifestKind::File).then_some(whole.object)
    }
}

/// The file system.
struct Mount {
    shown: Arc<ShownFolder>,
    files: Vec<FileState>,
    open_object: OpenObject,
    /// True if the kernel reads files of objects by itself.
    passes_through: AtomicBool,
    notifier: Arc<OnceLock<Notifier>>,
    open_files: Arc<AtomicU64>,
    user: u32,
    group: u32,
}

/// State of a file in the mount.
#[derive(Default)]
struct FileState {
    sidecar: OnceLock<Option<Vec<u8>>>,
    opened: Mutex<Opened>,
}

#[derive(Default)]
struct Opened {
    /// Number of descriptions through which programs have the file open.
    count: u64,
    /// The object's file, as the kernel has it. One for all who open it.
    backing: Option<BackingId>,
}

impl Mount {
    fn new(shown: Arc<ShownFolder>, open_object: OpenObject) -> Self {
        let mut files = Vec::new();
        files.resize_with(shown.folder.files.len(), FileState::default);
        Self {
            shown,
            files,
            open_object,
            passes_through: AtomicBool::new(false),
            notifier: Arc::default(),
            open_files: Arc::default(),
            user: nix::unistd::geteuid().as_raw(),
            group: nix::unistd::getegid().as_raw(),
        }
    }

    fn node(&self, ino: INodeNo) -> Option<(usize, &Node)> {
        let number = usize::try_from(ino.0.checked_sub(1)?).ok()?;
        Some((number, self.shown.tree.node(number)?))
    }

    fn file(&self, index: usize) -> Option<(&FolderFile, &FileState)> {
        Some((self.shown.folder.files.get(index)?, self.files.get(index)?))
    }

    /// The sidecar of a file, made when it is first asked for.
    fn sidecar(&self, index: usize) -> Option<&[u8]> {
        let (file, state) = self.file(index)?;
        let make = || match file.sidecar()? {
            Ok(sidecar) => Some(sidecar),
            Err(error) => {
                tracing::warn!(file = %file.name.display(), ?error, "no sidecar; loads read the file");
                None
            }
        };
        state.sidecar.get_or_init(make).as_deref()
    }

    fn attributes(&self, number: usize, node: &Node) -> Option<FileAttr> {
        let (kind, perm, size, modified) = match node {
            Node::Folder(_) => (FileType::Directory, 0o555, 0, 0),
            Node::File(index) => {
                let (file, _) = self.file(*index)?;
                (
                    FileType::RegularFile,
                    0o444,
                    file.entry.size,
                    file.entry.modified,
                )
            }
            Node::Sidecar(index) => {
                let (file, _) = self.file(*index)?;
                let len = self.sidecar(*index)?.len() as u64;
                (FileType::RegularFile, 0o444, len, file.entry.modified)
            }
        };
        let time = UNIX_EPOCH.checked_add(Duration::from_secs(modified));
        let time = time.unwrap_or(UNIX_EPOCH);
        Some(FileAttr {
            ino: INodeNo(number as u64 + 1),
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind,
            perm,
            nlink: if kind == FileType::Directory { 2 } else { 1 },
            uid: self.user,
            gid: self.group,
            rdev: 0,
            blksize: BLOCK_LEN,
            flags: 0,
        })
    }

    /// Opens the object of a file for the kernel, if it is one.
    fn backing(&self, file: &FolderFile, reply: &ReplyOpen) -> Option<BackingId> {
        if !self.passes_through.load(Ordering::Relaxed) {
            return None;
        }
        let opened = (self.open_object)(&file.whole()?)?;
        match reply.open_backing(&opened) {
            Ok(backing) => Some(backing),
            Err(error) => {
                tracing::debug!(%error, "the kernel does not read objects by itself");
                self.passes_through.store(false, Ordering::Relaxed);
                None
            }
        }
    }
}

fn lock(opened: &Mutex<Opened>) -> MutexGuard<'_, Opened> {
    opened.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Filesystem for Mount {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let passes = config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok()
            && config.set_max_stack_depth(1).is_ok();
        self.passes_through.store(passes, Ordering::Relaxed);
        // Lookups and reads of several programs at once.
        let _older = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let entry = self.node(parent).and_then(|(parent, _)| {
            let number = self.shown.tree.find(parent, name.to_str()?)?;
            self.attributes(number, self.shown.tree.node(number)?)
        });
        match entry {
            Some(attributes) => reply.entry(&FOREVER, &attributes, Generation(0)),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let node = self.node(ino);
        match node.and_then(|(number, node)| self.attributes(number, node)) {
            Some(attributes) => reply.attr(&FOREVER, &attributes),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let Some((_, Node::File(index))) = self.node(ino) else {
            reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE);
            return;
        };
        let Some((file, state)) = self.file(*index) else {
            reply.error(fuser::Errno::ENOENT);
            return;
        };
        let mut opened = lock(&state.opened);
        // An inode is read in one way by all who have it open at a time.
        if opened.count == 0 {
            opened.backing = self.backing(file, &reply);
        }
        opened.count += 1;
        self.open_files.fetch_add(1, Ordering::Relaxed);
        match &opened.backing {
            Some(backing) => {
                reply.opened_passthrough(FileHandle(0), FopenFlags::empty(), backing);
            }
            None => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.node(ino) {
            Some((_, Node::File(index))) => match self.file(*index) {
                Some((file, _)) => reply.data(&file.read(offset, size as usize)),
                None => reply.error(fuser::Errno::EIO),
            },
            Some((_, Node::Sidecar(index))) => match self.sidecar(*index) {
                Some(sidecar) => reply.data(part(sidecar, offset, size as usize)),
                None => reply.error(fuser::Errno::EIO),
            },
            Some((_, Node::Folder(_))) => reply.error(fuser::Errno::EISDIR),
            None => reply.error(fuser::Errno::ENOENT),
        }
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        reply.ok();
        let Some((_, Node::File(index))) = self.node(ino) else {
            return;
        };
        let Some((_, state)) = self.file(*index) else {
            return;
        };
        let mut opened = lock(&state.opened);
        opened.count = opened.count.saturating_sub(1);
        self.open_files.fetch_sub(1, Ordering::Relaxed);
        if opened.count > 0 {
            return;
        }
        let is_cached = opened.backing.take().is_none();
        drop(opened);
        // The tensors are in memory already. A program that opens the file meanwhile reads it again.
        if let (true, Some(notifier)) = (is_cached, self.notifier.get())
            && let Err(error) = notifier.inval_inode(ino, 0, 0)
        {
            tracing::debug!(%error, "the page cache of a file is kept");
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let Some((number, Node::Folder(folder))) = self.node(ino) else {
            reply.error(fuser::Errno::ENOTDIR);
            return;
        };
        let dots = [(".", number), ("..", folder.parent)];
        let entries = folder.entries.iter();
        let entries = dots
            .into_iter()
            .chain(entries.map(|(name, number)| (name.as_str(), *number)));
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for (index, (name, number)) in entries.enumerate().skip(skipped) {
            let kind = match self.shown.tree.node(number) {
                Some(Node::Folder(_)) => FileType::Directory,
                _ => FileType::RegularFile,
            };
            if reply.add(INodeNo(number as u64 + 1), index as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = self.shown.folder.bytes().div_ceil(u64::from(BLOCK_LEN));
        let files = self.shown.folder.files.len() as u64;
        reply.statfs(blocks, 0, 0, files, 0, BLOCK_LEN, 255, BLOCK_LEN);
    }
}
