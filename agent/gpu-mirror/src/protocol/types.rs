//! What messages are made of, and how much of it there may be.

use std::fmt;

use tetris_store_layout::{MAX_OBJECTS, ObjectId};

use crate::memory::DeviceUuid;

/// Longest text of a message in bytes.
pub const MAX_TEXT_BYTES: usize = 512;
/// Longest name of a device in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// Most devices of a server.
pub const MAX_DEVICES: usize = 64;
/// Most objects of a model that is named by its objects: as many as one manifest has (INV-8 of LAYOUT.md).
pub const MAX_MODEL_OBJECTS: u32 = MAX_OBJECTS as u32;
/// Most manifests of a model that is named by them.
pub const MAX_MANIFESTS: usize = 16;
/// Most objects in a message, 44 bytes each.
pub const MAX_OBJECTS_PER_MESSAGE: usize = 1024;
/// Most indexes in a message, 4 bytes each.
pub const MAX_NUMBERS_PER_MESSAGE: usize = 8192;
/// Most places in a message, 52 bytes each.
pub const MAX_PLACES_PER_MESSAGE: usize = 1024;
/// Most chunks in a message: as many descriptors as the kernel passes at a time (`SCM_MAX_FD`).
pub const MAX_CHUNKS_PER_MESSAGE: usize = 253;

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
                    other => write!(f, "a reason of number {other}, which a later version knows"),
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
    /// Why a model is not on a device. Unknown ones are valid.
    Reason {
        /// The server has no such device.
        NO_DEVICE = 1, "no such device";
        /// The model fits no device, however empty.
        TOO_LARGE = 2, "larger than the device";
        /// The tenant may not have as much.
        QUOTA = 3, "beyond the tenant's quota";
        /// Clients hold the memory.
        IN_USE = 4, "device memory is in use";
        /// The model's description makes no sense.
        INVALID = 5, "not a model";
        /// The store has not got all of it.
        MISSING = 6, "not in the store";
        /// The device has less memory than the server counts on: others took it, or dead clients' mappings still go.
        DEVICE_FULL = 7, "the device gave no memory";
        /// Copying failed.
        COPY_FAILED = 8, "copying to the device failed";
    }
}

open_codes! {
    /// Why a message was not understood or answered. Unknown ones are valid.
    ErrorCode {
        /// A kind that is not known, or that only the other side sends.
        UNKNOWN_KIND = 1, "unknown kind of message";
        /// A payload that is not what its kind says.
        MALFORMED = 2, "malformed message";
        /// A message at a time when it means nothing.
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
    /// All of its memory, in bytes.
    pub total_bytes: u64,
    /// What nobody has taken at the moment, in bytes.
    pub free_bytes: u64,
    /// What the mirror may take, in bytes.
    pub capacity_bytes: u64,
    /// The product's name, at most [`MAX_NAME_BYTES`].
    pub name: String,
}

/// Why a model was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// Why, for programs.
    pub reason: Reason,
    /// Bytes of device memory that are wanted, or bytes of the objects that the store has not got.
    pub missing_bytes: u64,
    /// How many objects the store has not got.
    pub missing_objects: u32,
    /// Why, for people; at most [`MAX_TEXT_BYTES`].
    pub text: String,
}

/// Where an object lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlaceEntry {
    /// The object.
    pub object: ObjectId,
    /// Which of the chunks that were passed, counted from 0 over all messages.
    pub chunk: u32,
    /// Where in the chunk, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// How a device is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Which.
    pub uuid: DeviceUuid,
    /// What the mirror may take, in bytes.
    pub capacity_bytes: u64,
    /// Its chunks, in bytes.
    pub created_bytes: u64,
    /// Objects in them, in bytes.
    pub live_bytes: u64,
    /// Objects that clients hold, in bytes.
    pub held_bytes: u64,
    /// Models of which something is there.
    pub models: u32,
    /// Models that clients hold.
    pub held_models: u32,
}

/// What a server is doing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatusReport {
    /// Connections, the asking one included.
    pub connections: u32,
    /// Connections that hold a model.
    pub leases: u32,
    /// Connections that wait for room.
    pub waiting: u32,
    /// Its devices, 1 to [`MAX_DEVICES`].
    pub devices: Vec<DeviceStatus>,
}
