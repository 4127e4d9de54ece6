//! The terminal while `top` runs: its own screen, which is written over in place.

use std::io::{Stdout, Write, stdout};

use rustix::termios::tcgetwinsize;

use super::frame::{Frame, WIDTH};
use crate::command::error::{Error, Result};
use crate::command::exit::Code;

/// Height where the terminal does not tell.
const HEIGHT: usize = 24;
/// Changes to the second screen and hides the cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Shows the cursor and changes back.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// The second screen of the terminal. Dropping it gives the first one back.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: Stdout,
}

impl Screen {
    /// Takes the screen.
    pub(super) fn enter() -> Result<Self> {
        let mut screen = Self { terminal: stdout() };
        screen.write(ENTER)?;
        Ok(screen)
    }

    /// Shows a frame over the last one. Only the ends of lines are cleared, so that nothing flickers.
    pub(super) fn show(&mut self, frame: &Frame<'_>) -> Result {
        let (height, width) = self.size();
        let lines = frame.lines(height.saturating_sub(1), width);
        let mut text = String::from("\x1b[H");
        for line in lines {
            text.push_str(&line);
            text.push_str("\x1b[K\r\n");
        }
        text.push_str("\x1b[J");
        self.write(&text)
    }

    /// Height and width of the terminal in characters.
    fn size(&self) -> (usize, usize) {
        let told = tcgetwinsize(&self.terminal).ok();
        let told = told.filter(|size| size.ws_row > 0 && size.ws_col > 0);
        told.map_or((HEIGHT, WIDTH), |size| {
            (usize::from(size.ws_row), usize::from(size.ws_col))
        })
    }

    fn write(&mut self, text: &str) -> Result {
        let written = self.terminal.write_all(text.as_bytes());
        let written = written.and_then(|()| self.terminal.flush());
        written.map_err(|error| {
            Error::message(
                Code::Failed,
                format_args!("cannot write to stdout: {error}"),
            )
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _closed = self.write(LEAVE);
    }
}
