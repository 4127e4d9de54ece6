//! The terminal while `top` runs: a screen of its own, which is written over in place.

use std::io::{Write, stdout};

use rustix::termios::tcgetwinsize;

use super::frame::{Frame, WIDTH};
use crate::cli::error::{Error, Result};
use crate::cli::exit::Code;

/// Height where the terminal does not tell.
const HEIGHT: usize = 24;
/// Changes to the second screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor and changes back.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The second screen of the terminal. Dropping it gives the first one back.
#[derive(Debug)]
pub(super) struct Screen(());

impl Screen {
    /// Takes the screen.
    pub(super) fn enter() -> Result<Self> {
        write(ENTER)?;
        Ok(Self(()))
    }

    /// Shows a frame over the last one. Only the ends of lines are cleared, so that nothing flickers.
    pub(super) fn show(&mut self, frame: &Frame<'_>) -> Result {
        let (height, width) = size();
        let lines = frame.lines(height.saturating_sub(1), width);
        let mut text = String::from("\x1b[H");
        for line in lines {
            text.push_str(&line);
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        write(&text)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _closed = write(LEAVE);
    }
}

/// Height and width of the terminal in characters.
fn size() -> (usize, usize) {
    let told = tcgetwinsize(stdout()).ok();
    let told = told.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    told.map_or((HEIGHT, WIDTH), |size| {
        (usize::from(size.ws_row), usize::from(size.ws_col))
    })
}

fn write(text: &str) -> Result {
    let mut out = stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| {
        Error::message(
            Code::Failed,
            format_args!("cannot write to stdout: {error}"),
        )
    })
}
