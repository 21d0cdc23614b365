//! The terminal: taken over while the fleet is shown, and given back on every exit.

use std::io::{self, Stdout, Write};
use std::panic;
use std::sync::Once;

use ratatui_core::terminal::{Frame, Terminal};
use ratatui_crossterm::CrosstermBackend;
use ratatui_crossterm::crossterm::cursor::{Hide, Show};
use ratatui_crossterm::crossterm::execute;
use ratatui_crossterm::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, size as terminal_size,
};

/// Width and height of the terminal; `None` if it does not say.
pub(super) fn size() -> Option<(u16, u16)> {
    terminal_size().ok().filter(|(width, height)| *width > 0 && *height > 0)
}

/// The terminal with the alternate screen, in raw mode. Dropping it restores what was before; so does a panic, before its
/// message is printed.
pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// The terminal fails; it is as it was before.
    pub(super) fn open() -> io::Result<Self> {
        restore_on_panic();
        let opened = enable_raw_mode()
            .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, Hide))
            .and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match opened {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Draws a picture.
    ///
    /// # Errors
    /// The terminal fails.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Nothing can be done about a terminal that cannot be restored, and nothing may hide why the command ends.
fn restore() {
    let _not_restored = disable_raw_mode();
    let mut out = io::stdout();
    let _not_restored = execute!(out, LeaveAlternateScreen, Show).and_then(|()| out.flush());
}

fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            hook(info);
        }));
    });
}
