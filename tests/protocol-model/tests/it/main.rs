//! The model: checked exhaustively, each step shown to be necessary, and compared with the code.

mod conformance;
mod necessity;
mod protocol;
