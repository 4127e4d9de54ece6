//! Plans and their parts.

use tetris_store_layout::ObjectId;

use crate::RecordId;

/// Objects to free in the stores of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Objects to free, the most urgent first.
    pub actions: Vec<Action>,
    /// True if the limit of actions omitted some. The caller carries out this plan, marks the
    /// mounts as [`draining`](crate::MountSnapshot::draining), and plans again.
    pub cut_short: bool,
    /// Models that lose objects by these actions, ordered by store and index.
    pub models: Vec<ModelChange>,
    /// Goals that no number of actions can reach.
    pub shortfalls: Vec<Shortfall>,
}

impl Plan {
    /// Memory that the actions free, in bytes.
    pub fn freed_bytes(&self) -> u64 {
        let bytes = self.actions.iter().map(|action| action.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// One object to free. A process may map it in the meantime; the store's protocol notices that
/// (LAYOUT.md 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Action {
    /// Index of its store in the snapshot.
    pub store: usize,
    /// Its index in that store.
    pub object: u32,
    /// Its identifier.
    pub id: ObjectId,
    /// Memory that it occupies, in bytes.
    pub bytes: u64,
    /// The reason for freeing it.
    pub reason: Reason,
    /// Its priority, from which [`State::freed`](crate::State::freed) updates the clock; 0 in an
    /// order without worth, such as LRU.
    pub priority: u64,
}

/// Reason for freeing an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It was not used within its window.
    KeepAliveExpired,
    /// A load is waiting for the room.
    Pressure,
    /// Its store is over its limit.
    OverQuota,
    /// Its mount is over the high watermark, or has too little room for guarantees, and it was used
    /// least recently.
    OverWatermark,
    /// The same, and it is worth least.
    Cost,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 5] = [
        Self::KeepAliveExpired,
        Self::Pressure,
        Self::OverQuota,
        Self::OverWatermark,
        Self::Cost,
    ];

    /// Its name in logs and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::KeepAliveExpired => "keep-alive-expired",
            Self::Pressure => "pressure",
            Self::OverQuota => "over-quota",
            Self::OverWatermark => "over-watermark",
            Self::Cost => "cost",
        }
    }
}

/// A model that loses objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ModelChange {
    /// Index of its store in the snapshot.
    pub store: usize,
    /// Its index in that store.
    pub model: usize,
    /// Its identifier.
    pub id: RecordId,
    /// Length of its objects in the store before the plan, in bytes.
    pub before_bytes: u64,
    /// Length of its objects in the store after the plan, in bytes. Below `total_bytes` the model
    /// is partially resident.
    pub after_bytes: u64,
    /// True if the plan frees the last of its objects. The caller then reports
    /// [`Event::Gone`](crate::Event::Gone) to the state.
    pub gone: bool,
}

/// A goal that the plan does not reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    /// Index of the mount.
    pub mount: usize,
    /// Index of the store whose limit is the goal; `None` if the goal is the mount's.
    pub store: Option<usize>,
    /// The goal.
    pub goal: Goal,
    /// Number of bytes missing.
    pub missing_bytes: u64,
    /// Number of inodes missing.
    pub missing_inodes: u64,
    /// Bytes that stay, by reason.
    pub kept: KeptBytes,
}

/// Goal of the planner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Room for the waiting loads.
    Requests,
    /// The limit of a store.
    Limit,
    /// The low watermark of a mount.
    LowWatermark,
    /// Free room for all that is guaranteed on a mount and not used.
    Guarantees,
}

/// Bytes of objects that stay, by the first reason that holds. When only held and protected objects
/// are left, a bigger store, or fewer models declared warm, helps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeptBytes {
    /// Mapped by a process.
    pub held_bytes: u64,
    /// Part of a model declared warm.
    pub protected_bytes: u64,
    /// Within the keep-alive window, which applies unless a load is waiting.
    pub young_bytes: u64,
    /// Within the guarantee of their store, while another store needs the room.
    pub guaranteed_bytes: u64,
}
