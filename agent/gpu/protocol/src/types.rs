//! Parts of messages, and their maximum sizes.

use std::fmt;

use tetris_store_layout::{MAX_OBJECTS, ObjectId};
use tetris_wire::MAX_DESCRIPTORS;

use tetris_gpu_device::DeviceUuid;

/// Maximum length of a device's name, in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// Maximum number of devices of a server.
pub const MAX_DEVICES: usize = 64;
/// Maximum number of objects of a model identified by its objects: that of one manifest (INV-8 of
/// LAYOUT.md).
pub const MAX_MODEL_OBJECTS: u32 = MAX_OBJECTS as u32;
/// Maximum number of manifests of a model identified by them.
pub const MAX_MANIFESTS: usize = 16;
/// Maximum number of objects in a message, 44 bytes each.
pub const MAX_OBJECTS_PER_MESSAGE: usize = 1024;
/// Maximum number of indexes in a message, 4 bytes each.
pub const MAX_NUMBERS_PER_MESSAGE: usize = 8192;
/// Maximum number of places in a message, 52 bytes each.
pub const MAX_PLACES_PER_MESSAGE: usize = 1024;
/// Maximum number of chunks in a message: one descriptor for each.
pub const MAX_CHUNKS_PER_MESSAGE: usize = MAX_DESCRIPTORS;

macro_rules! open_codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$case_doc:meta])* $case:ident = $code:literal, $text:literal;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u16);

        impl $name {
            $($(#[$case_doc])* pub const $case: Self = Self($code);)*
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.0 {
                    $($code => f.write_str($text),)*
                    other => write!(f, "reason {other} of a later version"),
                }
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{} ({self})", self.0)
            }
        }
    };
}

open_codes! {
    /// Reason a model is not on a device. Unknown reasons are valid.
    Reason {
        /// The server has no such device.
        NO_DEVICE = 1, "no such device";
        /// The model does not fit on an empty device.
        TOO_LARGE = 2, "larger than the device";
        /// The tenant's quota does not suffice.
        QUOTA = 3, "beyond the tenant's quota";
        /// Clients hold the memory.
        IN_USE = 4, "device memory is in use";
        /// The description of the model is invalid.
        INVALID = 5, "not a model";
        /// The store lacks at least one object.
        MISSING = 6, "not in the store";
        /// The device has less free memory than the server counts on: other programs use it, or the
        /// driver is still removing the mappings of dead clients.
        DEVICE_FULL = 7, "the device gave no memory";
        /// Copying failed.
        COPY_FAILED = 8, "copying to the device failed";
        /// A check found other bytes on the device than the object's name promises.
        DAMAGED = 9, "the bytes on the device are damaged";
    }
}

open_codes! {
    /// Reason a message was rejected. Unknown reasons are valid.
    ErrorCode {
        /// The kind is unknown, or only the other side sends it.
        UNKNOWN_KIND = 1, "unknown kind of message";
        /// The payload does not match its kind.
        MALFORMED = 2, "malformed message";
        /// The message is not allowed at this point.
        OUT_OF_TURN = 3, "message out of turn";
        /// The client's implementation of device memory is not the server's.
        OTHER_MEMORY = 4, "another implementation of device memory";
    }
}

/// A device of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceEntry {
    /// Its number at the server.
    pub number: u32,
    /// Its identity, the same for every process of the machine.
    pub uuid: DeviceUuid,
    /// Length of its memory, in bytes.
    pub total_bytes: u64,
    /// Length of its free memory at the moment, in bytes.
    pub free_bytes: u64,
    /// Limit of the mirror's memory, in bytes.
    pub capacity_bytes: u64,
    /// The product's name, at most [`MAX_NAME_BYTES`].
    pub name: String,
}

/// The reason a model was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The reason, for programs.
    pub reason: Reason,
    /// Number of bytes of device memory that the model needs, or length of the objects that the
    /// store lacks.
    pub missing_bytes: u64,
    /// Number of objects that the store lacks.
    pub missing_objects: u32,
    /// The reason, for people; at most [`MAX_TEXT_BYTES`](tetris_wire::MAX_TEXT_BYTES).
    pub text: String,
}

/// Position of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceEntry {
    /// The object.
    pub object: ObjectId,
    /// Index of its chunk among the passed chunks, counted from 0 over all messages.
    pub chunk: u32,
    /// Offset in the chunk, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// Usage of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceStatus {
    /// The device.
    pub uuid: DeviceUuid,
    /// Limit of the mirror's memory, in bytes.
    pub capacity_bytes: u64,
    /// Length of its chunks, in bytes.
    pub created_bytes: u64,
    /// Length of the objects in them, in bytes.
    pub live_bytes: u64,
    /// Length of the objects that clients hold, in bytes.
    pub held_bytes: u64,
    /// Number of models with at least one object on the device.
    pub models: u32,
    /// Number of models that clients hold.
    pub held_models: u32,
}

/// Status of a server.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusReport {
    /// Number of connections, including the requesting one.
    pub connections: u32,
    /// Number of connections that hold a model.
    pub leases: u32,
    /// Number of connections that wait for room.
    pub waiting: u32,
    /// Its devices, 1 to [`MAX_DEVICES`].
    pub devices: Vec<DeviceStatus>,
}

/// The prefix of a model that stays on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Kept {
    /// Its length in bytes; 0: none is kept, because the server has no budget for it, or nothing of
    /// the model need be resident.
    pub prefix_bytes: u64,
    /// Measured bytes per second of the device's transfers; 0: not measured yet.
    pub bytes_per_sec: u64,
}
