//! Keys, and what follows from one.

/// A key of the keyboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Arrow up.
    Up,
    /// Arrow down.
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    /// Esc.
    Escape,
    Backspace,
    /// A character.
    Char(char),
    /// Ctrl-C.
    Interrupt,
}

/// What follows from a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The picture changed.
    Draw,
    /// The key has no meaning here.
    Ignore,
    /// The program ends.
    Quit,
}
