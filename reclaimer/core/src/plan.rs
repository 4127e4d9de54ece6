//! What a plan says.

use tetris_store_layout::ObjectId;

use crate::RecordId;

/// What to do with the stores of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// Objects to free, the most urgent first.
    pub actions: Vec<Action>,
    /// There is more to free than the caller's bound allows: carry this out, mark the mounts as
    /// [`draining`](crate::Mount::draining), and plan again.
    pub cut_short: bool,
    /// Models that lose objects by these actions, by store and identifier.
    pub models: Vec<ModelChange>,
    /// Goals that cannot be reached, however many actions are allowed.
    pub shortfalls: Vec<Shortfall>,
}

impl Plan {
    /// Memory that the actions give back, in bytes.
    pub fn freed_bytes(&self) -> u64 {
        let bytes = self.actions.iter().map(|action| action.bytes);
        bytes.fold(0, u64::saturating_add)
    }
}

/// One object to free. Somebody may map it meanwhile, which the store's protocol notices (LAYOUT.md 5.3).
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
    /// Why.
    pub reason: Reason,
    /// Its Greedy-Dual priority, which [`State::freed`](crate::State::freed) learns from; 0 in stores that go
    /// by least recent use.
    pub priority: u64,
}

/// Why an object is freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// It was not used within its window.
    KeepAliveExpired,
    /// A load waits for the room.
    Pressure,
    /// Its store is over its limit.
    OverQuota,
    /// Its mount is over the high watermark, and it was used least recently.
    OverWatermark,
    /// Its mount is over the high watermark, and it is worth least.
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
    /// Length of its objects in the store before, in bytes.
    pub before_bytes: u64,
    /// And after. With less than its `total_bytes` it is partially resident.
    pub after_bytes: u64,
    /// Whether the last of its objects goes: tell the state with [`Event::Gone`](crate::Event::Gone).
    pub gone: bool,
}

/// A goal that cannot be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shortfall {
    /// Index of the mount.
    pub mount: usize,
    /// Index of the store whose limit is meant; none when it is the mount's room.
    pub store: Option<usize>,
    /// Which goal.
    pub goal: Goal,
    /// By how much it is missed, in bytes.
    pub missing_bytes: u64,
    /// What stays there, and why.
    pub kept: Kept,
}

/// What the planner tries to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Goal {
    /// Room for the loads that wait.
    Requests,
    /// The limit of a store.
    Limit,
    /// The low watermark of a mount.
    LowWatermark,
}

/// Bytes of objects that stay, by the first reason that holds. When only held and protected objects are left, a
/// bigger store, or fewer models declared warm, is what helps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Somebody maps them.
    pub held_bytes: u64,
    /// A model that is declared warm wants them.
    pub protected_bytes: u64,
    /// They are within the keep-alive window, which counts unless a load waits.
    pub young_bytes: u64,
    /// They are within the guarantee of their store, and the need is another's.
    pub guaranteed_bytes: u64,
}
