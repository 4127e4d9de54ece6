//! The command `tetris`, run as its users run it.

mod artifact;
mod causes;
mod doctor;
mod exec;
mod exec_paths;
mod fill;
mod gc;
mod global;
#[cfg(feature = "gpu")]
mod gpu_status;
mod image;
mod init;
mod inspect;
mod interruption;
mod keep;
mod leases;
mod log;
mod mount;
mod peers;
mod place;
mod pull;
mod pull_from;
mod push;
mod registry;
mod rm;
mod similarity;
mod site;
mod top;
mod verify;
mod which_store;
