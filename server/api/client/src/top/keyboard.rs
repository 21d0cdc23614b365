//! Keys of the terminal.

use std::{io, thread};

use ::top::Key;
use ratatui_crossterm::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::sync::mpsc;

/// Keys that wait.
const WAITING_KEYS: usize = 64;

/// What comes from the terminal.
#[derive(Debug)]
pub(super) enum Input {
    Key(Key),
    /// The terminal has another size.
    Resized,
    /// The terminal cannot be read.
    Failed(io::Error),
}

/// Starts a thread that reads the terminal. It ends with the process: a read of a terminal has no end of its own.
pub(super) fn read() -> mpsc::Receiver<Input> {
    let (sender, inputs) = mpsc::channel(WAITING_KEYS);
    thread::spawn(move || {
        loop {
            let (input, is_last) = match event::read() {
                Ok(event) => (input_of(&event), false),
                Err(error) => (Some(Input::Failed(error)), true),
            };
            let is_closed = input.is_some_and(|input| sender.blocking_send(input).is_err());
            if is_closed || is_last {
                return;
            }
        }
    });
    inputs
}

fn input_of(event: &Event) -> Option<Input> {
    match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key_of(key).map(Input::Key),
        Event::Resize(..) => Some(Input::Resized),
        _ => None,
    }
}

/// The key without a meaning of the terminal's own. In raw mode Ctrl-C is a key and no signal.
pub(super) fn key_of(key: &KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Key::Interrupt);
    }
    match key.code {
        KeyCode::Up => Some(Key::Up),
        KeyCode::Down => Some(Key::Down),
        KeyCode::PageUp => Some(Key::PageUp),
        KeyCode::PageDown => Some(Key::PageDown),
        KeyCode::Home => Some(Key::Home),
        KeyCode::End => Some(Key::End),
        KeyCode::Enter => Some(Key::Enter),
        KeyCode::Esc => Some(Key::Escape),
        KeyCode::Backspace => Some(Key::Backspace),
        KeyCode::Char(character) if !key.modifiers.contains(KeyModifiers::ALT) => Some(Key::Char(character)),
        _ => None,
    }
}
